"""Measures the ``sonant bench`` client itself: its CPU time, and what it adds to the time to a first byte.

    python -m benchmarks.http.load_client [--at-once 64] [--requests 512] [--pieces 100] [--bursts 9]

A minimal server in another process answers each request at once with pieces of 80 ms of audio, one every 20 ms. Two
runs, with one piece and with many, separate the cost of a request from that of a piece. Before that,
``--bursts`` times, ``--at-once`` requests are sent at once. The server answers at once, so nearly all of the time to
a first byte is the client's own.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
from contextlib import suppress

from benchmarks.lib.serving import ROOT
from server.bench.client import Client
from server.bench.run import Run, run
from server.bench.workload import SENTENCES, Closed, Workload

_PIECE = b"\x00\x20" * 1920
_INTERVAL_S = 0.02


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request with the number of pieces that its path contains."""
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        await reader.readexactly(int(head.partition("Content-Length: ")[2].split()[0]))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: audio/pcm\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(int(head.split("/")[1].split()[0])):
            writer.write(b"%x\r\n%b\r\n" % (len(_PIECE), _PIECE))
            await asyncio.sleep(_INTERVAL_S)
        writer.write(b"0\r\n\r\n")
        await writer.drain()
    writer.close()


async def serve() -> None:
    """Print the port on standard output and serve until terminated."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def run_load(port: int, pieces: int, load: Closed) -> Run:
    """Run ``load`` with requests for ``pieces`` pieces each. Raises SystemExit if a request fails."""
    client = Client(f"http://127.0.0.1:{port}/{pieces}", None, timeout=120, rate=24_000, audible=0.01)
    result = await run(load, client, Workload(SENTENCES))
    failed = [trace for trace in result.traces if trace.outcome != "ok"]
    if failed:
        raise SystemExit(f"{len(failed)} requests failed, the first with {failed[0].outcome}: {failed[0].detail}")
    return result


async def longest_first_byte(port: int, requests: int) -> float:
    """Send this number of requests at once. Return the longest time from a request to its first byte, in seconds."""
    result = await run_load(port, 1, Closed(requests, requests))
    return max(trace.pieces[0][0] - trace.intended for trace in result.traces)


def main() -> None:
    """Run the client and print the costs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--requests", type=int, default=512)
    parser.add_argument("--pieces", type=int, default=100, help="pieces of a long response")
    parser.add_argument("--bursts", type=int, default=9, help="number of bursts, at least 1")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        asyncio.run(serve())
        return
    command = [sys.executable, "-m", "benchmarks.http.load_client", "--serve"]
    load = Closed(args.at_once, args.requests)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            asyncio.run(run_load(port, 1, Closed(args.at_once, args.at_once)))
            bursts = [asyncio.run(longest_first_byte(port, args.at_once)) for _ in range(args.bursts)]
            few, many = (asyncio.run(run_load(port, pieces, load)) for pieces in (1, args.pieces))
        finally:
            server.terminate()
    piece = (many.busy - few.busy) / args.requests / (args.pieces - 1)
    request = few.busy / args.requests - piece
    print(f"CPU time: {1e3 * request:.2f} ms per request, {1e6 * piece:.0f} us per piece")
    burst = 1e3 * statistics.median(bursts)
    print(f"burst of {args.at_once}: longest time to a first byte {burst:.1f} ms (median of {args.bursts} bursts)")
    rate = args.at_once / _INTERVAL_S
    print(f"{args.at_once} at once, {rate:,.0f} pieces per second: busy {many.busy / many.seconds:.0%}")


if __name__ == "__main__":
    main()
