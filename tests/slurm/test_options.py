"""The table `[slurm]`: what it accepts, and what it says about the rest."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from fieldmark.slurm import SlurmOptions, bytes_of, minutes_of


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        (90, 90), ("90", 90), ("30:00", 30), ("00:30", 1), ("01:30:00", 90), ("1-00", 1440),
        ("1-02:03", 1563), ("2-00:00:01", 2881),
    ],
)  # fmt: skip
def test_times_are_read_as_slurm_reads_them(text: object, minutes: int) -> None:
    assert minutes_of(text) == minutes


@pytest.mark.parametrize("text", ["", "soon", 0, -5, True, "1:2:3:4", "0", 1.5, None])
def test_what_is_no_time_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="expected minutes"):
        minutes_of(text)


def test_memory_is_an_amount_with_its_unit() -> None:
    assert bytes_of("32G") == bytes_of("32GB") == bytes_of("32 GiB") == 32 << 30
    assert bytes_of("900m") == 900 << 20
    for text in ("32", "G", "lots", "0G", "-1G"):
        with pytest.raises(ValueError, match="32G"):
            bytes_of(text)


def test_a_whole_table() -> None:
    options = SlurmOptions.model_validate(
        {
            "account": "owls", "partition": "gpu", "cpu_partition": "cpu", "time": "04:00:00",
            "gpus": "a100:2", "cpus": 8, "memory": "64G", "array_parallelism": 10,
            "setup": "module load cuda\nsource env.sh", "environment": {"HF_HOME": "/data/hf"},
        }
    )  # fmt: skip
    assert options.time_s == 4 * 3600 and options.n_gpus == 2
    assert options.memory_bytes == 64 << 30
    assert options.setup == ("module load cuda", "source env.sh")
    empty = SlurmOptions()
    assert (empty.time_s, empty.n_gpus, empty.memory_bytes) == (0.0, 0, 0)


@pytest.mark.parametrize(
    ("table", "part"),
    [
        ({"acount": "owls"}, "acount"),
        ({"partition": "gpu --exclusive"}, "spaces"),
        ({"gpus": "two"}, "a100:1"),
        ({"gpus": -1}, "0 or more"),
        ({"cpus": -1}, "cpus"),
        ({"time": "tomorrow"}, "01:30:00"),
        ({"memory": "plenty"}, "32G"),
        ({"environment": {"A B": "1"}}, "A B"),
        ({"array_parallelism": 0}, "array_parallelism"),
    ],
)
def test_mistakes_are_named(table: dict[str, object], part: str) -> None:
    with pytest.raises(ValidationError) as caught:
        SlurmOptions.model_validate(table)
    assert part in str(caught.value)
