"""A frame as log_rendering() takes it."""

from __future__ import annotations

from .._exceptions import KymogramValidationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def check_frame(frame: Any) -> Any:
    """The frame as a uint8 array of its own, (H, W, 3) or (H, W)."""
    import numpy

    if hasattr(frame, "detach") and hasattr(frame, "cpu"):  # a tensor, on any device
        frame = frame.detach().cpu().numpy()
    found = numpy.asarray(frame)
    what = f"the frame has the shape {found.shape} and the type {found.dtype}"
    if found.dtype != numpy.uint8:
        hint = "; multiply by 255 and convert" if found.dtype.kind == "f" else ""
        raise KymogramValidationError(f"{what}; a frame is of uint8, from 0 to 255{hint}")
    if found.ndim == 3 and found.shape[2] == 1:
        found = found[:, :, 0]
    if found.ndim != 2 and (found.ndim != 3 or found.shape[2] != 3):
        hint = ""
        if found.ndim == 3 and found.shape[2] == 4:
            hint = "; leave the alpha channel out: frame[:, :, :3]"
        elif found.ndim == 3 and found.shape[0] in (1, 3):
            hint = "; move the channels to the end: frame.transpose(1, 2, 0)"
        raise KymogramValidationError(
            f"{what}; a frame is (H, W, 3) in RGB, or (H, W) or (H, W, 1) in grey{hint}"
        )
    height, width = found.shape[:2]
    if height % 2 or width % 2 or not height or not width:
        raise KymogramValidationError(
            f"{what}; width and height must be even and not 0 (H.264 with yuv420p halves them): "
            f"crop it, frame[:{height // 2 * 2}, :{width // 2 * 2}]"
        )
    return numpy.array(found, order="C", copy=True)
