"""Certificates of a command that was killed: written part by part, read by the next start."""

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from app.threats.threat_records import Record, Sample
from attacks.journal import abridge, differences
from attacks.json_lines import append, open_lines, read_lines

log = logging.getLogger(__name__)


class Part(NamedTuple):
    """Some samples that were certified together.

    Attributes:
        records: their lines.
        seconds: that it took.
    """

    records: list[Record]
    seconds: float

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Part":
        """Returns the part of a line."""
        return cls(list(content["records"]), float(content["seconds"]))


def certified(
    path: Path,
    about: Mapping[str, Any],
    samples: Sequence[Sample],
    certify: Callable[[Sequence[Sample]], list[Record]],
    *,
    at_once: int,
    filed: Mapping[str, Any] = MappingProxyType({}),
) -> Part:
    """Certifies samples; a kill loses the part that is in work, and no other.

    Args:
        path: file of the parts; the caller deletes it when the outcome is filed.
        about: what the records depend on.
        samples: in their order.
        certify: from some samples to their lines.
        at_once: samples of a part.
        filed: what the outcome that is filed under this name is about; empty if there is none.

    Returns:
        All samples, with the seconds of all starts.

    Raises:
        ValueError: the file has parts of other settings.
        OSError: the file cannot be read or written.
    """
    settings = json.loads(json.dumps(about))
    parts: list[Part] = []
    length = 0
    if path.is_file():
        before, parts, length = read_lines(path, Part.of)
        if length and before != settings and before.items() <= filed.items():
            # A kill came between the filing of the outcome and the end of this file.
            parts, length = [], 0
        elif length and (other := differences(before, settings)):
            msg = (
                f"got {path} of a command that has not ended, with other settings "
                f"({abridge(other)}), expected the same, to go on: give these, another --tag, or "
                "delete the file"
            )
            raise ValueError(msg)
    records = [line for part in parts for line in part.records]
    if records:
        log.info("%d of %d texts were certified by an earlier start", len(records), len(samples))
    with open_lines(path, settings, length) as stream:
        for start in range(len(records), len(samples), at_once):
            began = time.monotonic()
            part = Part(certify(samples[start : start + at_once]), time.monotonic() - began)
            append(stream, [part._asdict()])
            parts.append(part)
    return Part(
        [line for part in parts for line in part.records], sum(part.seconds for part in parts)
    )
