"""``make test-clients``: runs real client packages against a server and prints which of them work."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from benchmarks.lib.serving import running_server
from scripts.clients import requests
from scripts.clients.catalog import CLIENTS
from scripts.clients.environments import ROOT, Environment
from scripts.clients.listen import require_judge, word_errors
from scripts.clients.page import table, write_table
from scripts.clients.recorder import Recorder
from scripts.clients.requests import ClientRequest
from scripts.clients.runs import Run, run_dialogue, run_example

_TIMEOUT = 600.0


@dataclass
class Results:
    """What was run, and the requests that were replayed, each with its error, if any.

    word_errors: of each client's dialogue, if the judge listened.
    """

    examples: list[Run] = field(default_factory=list)
    dialogues: list[Run] = field(default_factory=list)
    replays: list[tuple[ClientRequest, str]] = field(default_factory=list)
    word_errors: dict[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether a client does not work."""
        return any(run.error for run in [*self.examples, *self.dialogues]) or any(error for _, error in self.replays)

    def clients(self) -> str:
        """Return the table of the clients."""
        rows = [(run.client, run.version, "run", run.error or "works") for run in self.examples]
        rows += [(_title(each), each.version, "replay", error or "works") for each, error in self.replays]
        return table(("client", "version", "tested", "result"), rows)

    def splitters(self) -> str:
        """Return the table of the dialogues."""
        rows: list[tuple[object, ...]] = []
        for run in self.dialogues:
            sizes = [len(text) for text in run.texts] or [0]
            result = run.error or "every word"
            heard_wrong = self.word_errors.get(run.client, "–")
            rows.append((run.client, run.version, len(sizes), f"{min(sizes)} to {max(sizes)}", result, heard_wrong))
        return table(("client", "version", "requests", "characters in a request", "spoken", "words heard wrong"), rows)

    def write(self) -> None:
        """Write the tables into the page, and store the requests that were recorded."""
        done = [("speech", run) for run in self.examples] + [("sentence", run) for run in self.dialogues]
        requests.store([run.recorded(name) for name, run in done if not run.error])
        requests.store_dialogues({run.client: run.texts for run in self.dialogues if not run.error})
        write_table("table", self.clients())
        write_table("dialogue", self.splitters())


def main() -> None:
    """Run the clients and print the tables. Exits with 1 if one of them fails."""
    args = _arguments()
    if args.listen:
        require_judge()
    environments = [Environment(client) for client in CLIENTS if not args.only or client.folder in args.only]
    for environment in environments:
        environment.install()
    os.environ["SONANT_TEXT__SOUNDLESS"] = "silence"  # splitters send emoji as sentences
    results = Results()
    with (
        tempfile.TemporaryDirectory() as folder,
        running_server(args.config, Path(folder) / "log") as (server, _),
        Recorder(server) as recorder,
    ):
        for environment in environments:
            if environment.client.runs_example:
                results.examples.append(run_example(environment, recorder))
            if environment.client.dialogue and not args.skip_dialogue:
                results.dialogues.append(run_dialogue(environment, recorder))
        if not args.only:
            results.replays = [(each, _replay(each, server)) for each in requests.load() if each.source]
    if args.listen:
        results.word_errors = {run.client: word_errors(run.folder) for run in results.dialogues}
    print(f"{results.clients()}\n\n{results.splitters()}")
    if args.write:
        results.write()
    sys.exit(results.failed)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make test-clients", description=__doc__)
    config = ROOT / "configs" / "pocket.yaml"
    parser.add_argument("--config", type=Path, default=config, help="the server's configuration")
    names = [client.folder for client in CLIENTS]
    parser.add_argument("--only", nargs="+", choices=names, help="run only these clients, and no replays")
    parser.add_argument("--skip-dialogue", action="store_true", help="run only the examples and the replays")
    parser.add_argument("--listen", action="store_true", help="recognize the dialogues with the judge of make judge")
    parser.add_argument("--write", action="store_true", help="write the tables into the page, and requests.json")
    args = parser.parse_args()
    if args.write and (args.only or args.skip_dialogue):
        parser.error("--write needs a run of all clients and dialogues; remove --only and --skip-dialogue")
    return args


def _replay(request: ClientRequest, server: str) -> str:
    """Send a request that was taken from a client's source code. Return the error, if any."""
    with httpx.Client(base_url=server, timeout=_TIMEOUT) as client:
        response = request.send(client)
    return "" if response.status_code == 200 else response.text


def _title(request: ClientRequest) -> str:
    return request.client if request.name == "speech" else f"{request.client}, {request.name}"


if __name__ == "__main__":
    main()
