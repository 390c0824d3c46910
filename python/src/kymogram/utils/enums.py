"""The choices under the name that programs written for Metrana import."""

from .._enums import (
    BackpressureStrategy,
    CaseInsensitiveEnum,
    Compression,
    DeliveryPolicy,
    ErrorStrategy,
    InitMode,
    LogLevel,
    RenderingUploadMode,
    ResumeStrategy,
    StandardMetricScale,
)

__all__ = [
    "BackpressureStrategy",
    "CaseInsensitiveEnum",
    "Compression",
    "DeliveryPolicy",
    "ErrorStrategy",
    "InitMode",
    "LogLevel",
    "RenderingUploadMode",
    "ResumeStrategy",
    "StandardMetricScale",
]
