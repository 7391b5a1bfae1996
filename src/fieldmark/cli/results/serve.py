"""Show the results in a browser, live while runs are in progress.

examples:
  fieldmark serve
  fieldmark serve --task newt --no-images
  fieldmark serve --host 0.0.0.0 --port 8080
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import arg

from fieldmark.cli.flags import Common, PhotoFlags, RunChoice
from fieldmark.cli.show import show, talk
from fieldmark.errors import UsageError


@dataclass(frozen=True, slots=True)
class ServeArgs(RunChoice):
    host: Annotated[str, arg(metavar="ADDRESS")] = "127.0.0.1"
    """address to listen on; visitors need the token in the printed address (FIELDMARK_TOKEN)"""
    port: Annotated[int, arg(metavar="N")] = 0
    """port to listen on; 0 takes a free one"""
    no_images: bool = False
    """show no photos"""
    common: PhotoFlags = Common()


def run(args: ServeArgs) -> int:
    try:
        from fieldmark.report.serve import LiveResults, ServeAddress, serve
    except ModuleNotFoundError as error:
        raise UsageError(
            f"`fieldmark serve` needs {error.name}, which is not installed: "
            "pip install 'fieldmark[serve]'."
        ) from error

    with args.open_store():
        pass  # a file that cannot be read is told here, not in every visitor's browser
    settings = args.common.settings()
    results = LiveResults(settings, args.where, with_images=not args.no_images)

    def ready(address: str) -> None:
        show(address)
        talk("Press Ctrl-C to stop.")

    serve(results, ServeAddress.for_host(args.host, args.port), ready)
    return 0
