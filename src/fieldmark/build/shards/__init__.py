"""webdataset shards: tar files of samples, made, indexed, checked and copied.

tar.py          members of a tar file, one after the other; is it whole?
samples.py      members that belong together; webdataset's rule of keys
texts.py        the text members of TreeOfLife shards ↔ a taxon
"""

from __future__ import annotations

from fieldmark.build.shards.samples import MemberReader, Sample, SampleMember, read_samples
from fieldmark.build.shards.texts import sample_taxon, taxon_texts

__all__ = [
    "MemberReader",
    "Sample",
    "SampleMember",
    "read_samples",
    "sample_taxon",
    "taxon_texts",
]
