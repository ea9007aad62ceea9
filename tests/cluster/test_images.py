"""Images written by hand: the same content gives the same bytes, in the layout that runtimes read."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from e2e.images import buildah, dockerfile, oci, python_host


def read(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {entry.name: tar.extractfile(entry).read() for entry in tar if entry.isfile()}  # type: ignore[union-attr]


def test_the_same_content_gives_the_same_archive() -> None:
    assert oci.archive(python_host.NAME, python_host.CONTENT) == oci.archive(
        python_host.NAME, python_host.CONTENT
    )


def test_every_blob_has_the_name_of_its_hash() -> None:
    blobs = {
        name: data for name, data in read(oci.archive("a/b:1", oci.Content())).items() if "blobs/" in name
    }
    assert len(blobs) == 3
    for name, data in blobs.items():
        assert name == f"blobs/sha256/{hashlib.sha256(data).hexdigest()}"


def test_the_index_tells_containerd_the_name() -> None:
    index = json.loads(read(oci.archive("a/b:1", oci.Content()))["index.json"])
    assert index["manifests"][0]["annotations"] == {"io.containerd.image.name": "a/b:1"}


def test_the_python_host_knows_root_and_the_user_of_every_pod(tmp_path: Path) -> None:
    names = python_host.CONTENT.files["etc/passwd"].decode().splitlines()
    assert [line.split(":")[2] for line in names] == ["0", "10001"]
    assert {"bin", "lib", "lib64", "sbin"} == set(python_host.CONTENT.links)


def test_an_image_is_built_again_when_a_source_changes_but_not_when_python_compiles(tmp_path: Path) -> None:
    package = tmp_path / "package"
    (package / "__pycache__").mkdir(parents=True)
    (package / "a.py").write_text("x = 1\n")
    before = dockerfile.digest([package], "base:1")
    (package / "__pycache__" / "a.pyc").write_bytes(b"compiled")
    assert dockerfile.digest([package], "base:1") == before
    assert dockerfile.digest([package], "base:2") != before
    (package / "a.py").write_text("x = 2\n")
    assert dockerfile.digest([package], "base:1") != before


def test_a_build_gets_the_pip_settings_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in buildah.PIP_SETTINGS:
        monkeypatch.delenv("PIP_" + key.upper().replace("-", "_"), raising=False)
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "180")
    config = tmp_path / "pip.conf"
    config.write_text("[global]\ncert = /etc/ca.pem\ntimeout = 3\nno-color = true\n")
    assert buildah.pip_settings([config, tmp_path / "absent"]) == {"timeout": "180", "cert": "/etc/ca.pem"}
