"""A binary is built again when, and only when, something that goes into it has changed."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from e2e.cluster import build, cache
from e2e.cluster.errors import BuildFailed

PAUSE = build.BY_NAME["pause"]


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    folder = tmp_path / "pause"
    folder.mkdir()
    (folder / "go.mod").write_text("module pause\n")
    (folder / "main.go").write_text("package main\n")
    return tmp_path


def test_the_key_stays_while_the_files_do(modules: Path) -> None:
    before = build.key(PAUSE, "go1.26.0", modules)
    (modules / "pause" / "notes.txt").write_text("not built")
    assert build.key(PAUSE, "go1.26.0", modules) == before


@pytest.mark.parametrize("name", ["go.mod", "go.sum", "main.go", "more.go"])
def test_the_key_changes_with_any_file_of_the_module(modules: Path, name: str) -> None:
    before = build.key(PAUSE, "go1.26.0", modules)
    with (modules / "pause" / name).open("a") as file:
        file.write("// changed\n")
    assert build.key(PAUSE, "go1.26.0", modules) != before


def test_the_key_changes_with_the_version_of_go(modules: Path) -> None:
    assert build.key(PAUSE, "go1.26.0", modules) != build.key(PAUSE, "go1.26.1", modules)


def test_versions_are_those_that_the_modules_require() -> None:
    wanted = {"kubernetes": "v1.37.2", "etcd": "v3.7.3", "helm": "v4.3.1", "kwok": "v0.8.0",
              "coredns": "v1.15.0", "local-path-provisioner": "v0.0.30"}  # fmt: skip
    assert {name: build.version(build.BY_NAME[name]) for name in wanted} == wanted


def test_kubernetes_knows_its_version() -> None:
    flags = build.ldflags(build.BY_NAME["kubernetes"])
    for setting in ("gitVersion=v1.37.2", "gitMajor=1", "gitMinor=37"):
        assert f"-X k8s.io/component-base/version.{setting}" in flags


def test_every_module_has_its_sums_committed() -> None:
    for module in build.ALL:
        folder = build.MODULES / module.name
        assert (folder / "go.mod").exists()
        assert (folder / "go.sum").exists() or not module.versioned_by


def test_an_unknown_module_is_refused_by_name() -> None:
    with pytest.raises(BuildFailed, match="no module minikube"):
        build.ensure(("minikube",))


def test_a_folder_that_was_not_finished_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with cache.new_folder(tmp_path / "built") as folder:
            (folder / "half").touch()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(tmp_path.iterdir()) == []


def _count_up(folder: Path) -> None:
    for _ in range(50):
        with cache.locked(folder / "lock"):
            value = int((folder / "count").read_text())
            (folder / "count").write_text(str(value + 1))
            if value % 10 == 0:
                (folder / "lock").unlink()


def test_a_lock_is_held_alone_even_when_its_file_is_removed(tmp_path: Path) -> None:
    (tmp_path / "count").write_text("0")
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_count_up, args=(tmp_path,)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (tmp_path / "count").read_text() == "200"
