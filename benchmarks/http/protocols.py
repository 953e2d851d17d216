"""Compares gRPC with HTTP: ms until the first audio, and seconds of audio per second, for the same requests.

    python -m benchmarks.http.protocols [--config FILE] [--model FOLDER] [--stand-in] [--at-once 1 8] [--requests 40]

Starts one server with both listeners, and runs each load first over HTTP and then over gRPC (``ModelStreamInfer``), or
with ``--server URL --grpc-server HOST:PORT`` uses one that runs already. Both send raw 16-bit samples. Over HTTP each
request has its own connection, as in ``sonant bench``. Over gRPC each request has its own stream on one connection.
``--stand-in`` replaces the models by ``benchmarks/lib/stand_in_engine.py``, whose steps take ``--step-ms``, so that the
protocols are what differs. ``client`` is the share of one core that the load client used: above about 0.8 it is the
bottleneck.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import grpc
import grpc.aio
import yaml
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub
from typing_extensions import override

from benchmarks.http.request_cost import stand_in_settings
from benchmarks.lib.report import machine
from benchmarks.lib.serving import ROOT, running_server
from benchmarks.lib.stand_in_engine import BATCH_MS, LAUNCHES, STEP_MS, SWITCH_MS
from server.bench.client import Client, Send
from server.bench.samples import Samples
from server.bench.summary import Summary, measure
from server.bench.trace import Trace
from server.bench.workload import SENTENCES, Closed, Workload, parse_frames

_TIMEOUT_S = 120.0
_RATE = 24_000
_AUDIBLE = 0.01
_STAND_IN = ("benchmarks.lib.stand_in_engine", "server.cli.main")


class GrpcClient(Client):
    """Sends speech requests over gRPC, with timestamps as those of the HTTP client. Create it in the event loop."""

    def __init__(self, address: str, key: str | None) -> None:
        super().__init__(f"http://{address}", key, timeout=_TIMEOUT_S, rate=_RATE, audible=_AUDIBLE)
        self.channel = grpc.aio.insecure_channel(address)
        self._stub = GRPCInferenceServiceStub(self.channel)
        self._metadata = (("authorization", f"Bearer {key}"),) if key else ()

    @override
    def prepare(self, body: bytes, headers: Sequence[tuple[str, str]] = ()) -> Send:
        return partial(self._infer, infer_request(json.loads(body)), headers)

    async def _infer(self, request: pb.ModelInferRequest, headers: Sequence[tuple[str, str]], trace: Trace) -> None:
        samples = Samples(_RATE, _AUDIBLE)
        trace.connected = time.perf_counter()
        try:
            responses = self._stub.ModelStreamInfer(timeout=_TIMEOUT_S, metadata=(*self._metadata, *headers))
            await responses.write(request)
            await responses.done_writing()
            async for response in responses:
                now = time.perf_counter()
                trace.answered = trace.answered or now
                if response.error_message:
                    trace.end("failed", response.error_message)
                    return
                if size := samples.add(response.infer_response.raw_output_contents[0]):
                    trace.pieces.append((now, size))
        except grpc.aio.AioRpcError as error:
            trace.end(error.code().name, error.details() or "")
            return
        trace.rate, trace.onset = samples.rate, samples.onset
        trace.end("ok", "")


def infer_request(fields: dict[str, object]) -> pb.ModelInferRequest:
    """Return the inference request for the body of a speech request."""
    request = pb.ModelInferRequest()
    text = str(fields["input"]).encode()
    request.inputs.add(name="input", datatype="BYTES", shape=[1])
    request.raw_input_contents.append(len(text).to_bytes(4, "little") + text)
    request.outputs.add(name="pcm")
    for name, value in fields.items():
        if name in ("input", "response_format", "stream"):
            continue
        if isinstance(value, int):
            request.parameters[name].int64_param = value
        else:
            request.parameters[name].string_param = str(value)
    return request


async def compare(args: argparse.Namespace, http: str, grpc_address: str) -> None:
    """Run all loads over both protocols, and print a row for each."""
    key = os.environ.get("SONANT_API_KEY")
    workload = Workload(SENTENCES, voices=args.voice, frames=parse_frames(args.frames))
    loads = [Closed(at_once, max(args.requests, 2 * at_once)) for at_once in args.at_once]
    clients = {"HTTP": Client(http, key, timeout=_TIMEOUT_S, rate=_RATE, audible=_AUDIBLE)}
    await clients["HTTP"].reach()
    over_grpc = GrpcClient(grpc_address, key)
    clients["gRPC"] = over_grpc
    print(f"{'at once':>7} {'protocol':8} {'first audio p50':>16} {'p95':>8} {'audio s/s':>10} {'client':>7}")
    for load in loads:
        for name, client in clients.items():
            async for summary, _ in measure([load], client, workload, warm_up=2, buffer=0.1):
                print(row(load.at_once, name, summary), flush=True)
    await over_grpc.channel.close()


def row(at_once: int, name: str, summary: Summary) -> str:
    """Return one row of the table. Raises SystemExit if a request failed."""
    if summary.succeeded != summary.requests:
        raise SystemExit(f"{name}: {summary.outcomes} {summary.details}")
    first = summary.spreads["first_byte"].percentiles
    times = f"{1e3 * first[50]:13.1f} ms {1e3 * first[95]:5.1f} ms"
    return f"{at_once:7d} {name:8} {times} {summary.audio_per_second:10.1f} {summary.client_busy:7.2f}"


@contextmanager
def servers(args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield the addresses of both listeners."""
    if args.server:
        yield args.server, args.grpc_server
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config: Path = args.config
        program: tuple[str, ...] = ("server.cli",)
        if args.stand_in:
            os.environ |= {STEP_MS: f"{args.step_ms:g}", BATCH_MS: "0", SWITCH_MS: "5", LAUNCHES: "0"}
            config, program = folder / "config.yaml", _STAND_IN
            config.write_text(yaml.safe_dump(stand_in_settings(folder, max(args.at_once))))
        flags = ["--grpc", "0", *(["--model", args.model] if args.model else [])]
        with running_server(config, folder / "log", *flags, program=program) as (address, _):
            found = re.search(r"grpc://([^\s\"]+)", (folder / "log").read_text())
            assert found is not None
            yield address, found.group(1)


def main() -> None:
    """Start the server and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "pocket.yaml")
    parser.add_argument("--model", help="a checkpoint folder or hub name that replaces the model of the configuration")
    parser.add_argument("--server", help="URL of a running server; needs --grpc-server")
    parser.add_argument("--grpc-server", help="HOST:PORT of the gRPC listener of the running server")
    parser.add_argument("--stand-in", action="store_true", help="replace the models by stand-ins")
    parser.add_argument("--step-ms", type=float, default=10.0, help="duration of a step of the stand-ins")
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 8], help="numbers of concurrent requests")
    parser.add_argument("--requests", type=int, default=40, help="requests of each load, at least two per client")
    parser.add_argument("--frames", help="length of each utterance in frames, or 'text'; default: the model decides")
    parser.add_argument("--voice", action="append", default=[], help="voice; may be repeated")
    args = parser.parse_args()
    if bool(args.server) != bool(args.grpc_server):
        parser.error("--server and --grpc-server must be given together")
    print("{cpu}, {cores} cores; Python {python}".format(**machine()), flush=True)
    with servers(args) as (http, grpc_address):
        asyncio.run(compare(args, http, grpc_address))


if __name__ == "__main__":
    main()
