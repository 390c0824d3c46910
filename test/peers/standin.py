"""A server that takes what the real Metrana clients send and counts the points: python standin.py COUNTFILE [hold].

It prints its port. Every acked scalar's step goes to COUNTFILE as a line, so that a kill loses nothing of the count.
With `hold` it acks the opening message only: the client's queue fills. Handlers answer in the order in which the
clients were seen to ask.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from concurrent import futures

import grpc
from metrana_protobuf.ingestion.v1.svc import api_pb2, api_pb2_grpc

Started = api_pb2.InitializeRunLoggingResponse


class Ingest(api_pb2_grpc.IngestServiceServicer):
    def __init__(self, path: str, hold: bool) -> None:
        self._file = open(path, "a", buffering=1)  # noqa: SIM115 # as long as the process
        self._lock = threading.Lock()
        self._hold = hold
        self._runs: dict[str, str] = {}

    def InitializeRunLogging(self, request: object, context: grpc.ServicerContext) -> Iterator[object]:  # noqa: N802
        run = request.run  # type: ignore[attr-defined]
        created = run.run_name not in self._runs
        owner = self._runs.setdefault(run.run_name, run.orchestration_identifier)
        yield Started(
            initialized_run=Started.InitializedRun(created=created, run_id=bytes(16), orchestration_identifier=owner)
        )
        yield Started(last_logged_steps=Started.LastLoggedSteps(is_last=True))
        yield Started(rl_family_declarations=Started.RlFamilyDeclarations(is_last=True))
        yield Started(env_statuses=Started.EnvStatuses(is_last=True))

    def UpdateRunStream(self, requests: Iterator[object], context: grpc.ServicerContext) -> Iterator[object]:  # noqa: N802
        for number, request in enumerate(requests):
            if self._hold and number:
                while context.is_active():
                    time.sleep(0.1)
                return
            self._count(request)
            yield api_pb2.UpdateRunResponse(operation_id=str(number))

    def _count(self, request: object) -> None:
        lines = []
        for series in request.series:  # type: ignore[attr-defined]
            for batch in series.point_batches:
                values = list(batch.values) or list(batch.values_f32)
                lines += [f"{value:.0f}\n" for value in values]
        with self._lock:
            self._file.write("".join(lines))


def main() -> None:
    server = grpc.server(futures.ThreadPoolExecutor(32), options=[("grpc.max_receive_message_length", 64 << 20)])
    api_pb2_grpc.add_IngestServiceServicer_to_server(Ingest(sys.argv[1], "hold" in sys.argv[2:]), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
