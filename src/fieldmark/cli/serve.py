"""Show the results in a browser, live while runs go on.

examples:
  fieldmark serve
  fieldmark serve --task newt --no-images
  fieldmark serve --host 0.0.0.0 --port 8080
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import UseAppendAction, arg

from fieldmark.cli._flags import Common, CommonFlags
from fieldmark.cli._show import talk
from fieldmark.errors import UsageError


@dataclass(frozen=True, slots=True)
class ServeArgs:
    model: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="MODEL")] = ()
    """only these (* and ? work; NAME#4ae7 is one version)"""
    task: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="TASK")] = ()
    """only these (* and ? work)"""
    host: Annotated[str, arg(metavar="ADDRESS")] = "127.0.0.1"
    """where to listen; beyond this machine the page asks for a token (FIELDMARK_TOKEN)"""
    port: Annotated[int, arg(metavar="N")] = 0
    """0 takes any that is free"""
    no_images: bool = False
    """no photos"""
    common: CommonFlags = Common()


def run(args: ServeArgs) -> int:
    try:
        from fieldmark.report.serve import LiveResults, ServeAddress, serve
    except ModuleNotFoundError as error:
        raise UsageError(
            f"`fieldmark serve` needs {error.name}, which is not installed: "
            "pip install 'fieldmark[serve]'."
        ) from error
    from fieldmark.store import RunFilter, Store

    settings = args.common.settings()
    with Store.open(settings.store, read_only=True):
        pass  # a file that cannot be read is told here, not in every visitor's browser
    where = RunFilter(models=args.model, tasks=args.task)
    results = LiveResults(settings, where, with_images=not args.no_images)

    def ready(address: str) -> None:
        print(address, flush=True)
        talk("Ctrl-C ends it.")

    serve(results, ServeAddress.for_host(args.host, args.port), ready)
    return 0
