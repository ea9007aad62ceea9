"""S3: a store of moto's over real HTTP, and one that only refuses."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import boto3
import pytest
from llmservice_operator.api import copies
from llmservice_operator.fetch import bucket
from llmservice_operator.fetch.origin import Digest
from moto.server import ThreadedMotoServer

from tests.operator.fetch.conftest import BIG, SMALL, Runner, model

KEY, SECRET = "AKIAEXAMPLE", "MARKERsecretkey0123456789"
Stream = Callable[..., AbstractContextManager[tuple[int, Iterator[bytes]]]]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def store(endpoint: str, fetch: Runner) -> Any:
    """A bucket with a model of this test's own content."""
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
    )
    client.create_bucket(Bucket="models")
    for name, content in model().items():
        client.put_object(Bucket="models", Key=f"team/tiny/{name}", Body=content)
    (fetch.secrets / "AWS_ACCESS_KEY_ID").write_text(KEY)
    (fetch.secrets / "AWS_SECRET_ACCESS_KEY").write_text(SECRET + "\n")
    yield client
    for item in client.list_objects_v2(Bucket="models").get("Contents", ()):
        client.delete_object(Bucket="models", Key=item["Key"])
    client.delete_bucket(Bucket="models")


@pytest.fixture
def source(endpoint: str) -> dict[str, Any]:
    return {"s3": {"uri": "s3://models/team/tiny", "endpoint": endpoint}}


def copied(fetch: Runner, source: dict[str, Any], revision: str) -> dict[str, bytes]:
    folder = fetch.folder / copies.folder(source, revision)
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def wanted() -> dict[str, bytes]:
    return {name: text for name, text in model().items() if name.endswith((".safetensors", ".json"))}


def test_a_prefix_is_resolved_and_copied(fetch: Runner, store: Any, source: dict[str, Any]) -> None:
    ran = fetch.run("resolve", source)
    assert ran.code == 0, ran.report
    revision = ran.report["revision"]
    assert len(revision) == 16
    assert (ran.report["context_length"], ran.report["dtype"]) == (2048, "bfloat16")
    assert fetch.run("resolve", source).report["revision"] == revision
    ran = fetch.finish(fetch.start("copy", source, revision=revision))
    assert ran.code == 0, ran.output
    assert copied(fetch, source, revision) == wanted()


def test_a_complete_copy_asks_nobody(fetch: Runner, store: Any, source: dict[str, Any]) -> None:
    revision = fetch.run("copy", source).report["revision"]
    gone = {"s3": {"uri": source["s3"]["uri"], "endpoint": "http://127.0.0.1:9"}}
    assert fetch.run("copy", gone, revision=revision).code == 0


def test_objects_that_changed_since_are_not_copied(fetch: Runner, store: Any, source: dict[str, Any]) -> None:
    revision = fetch.run("resolve", source).report["revision"]
    store.put_object(Bucket="models", Key=f"team/tiny/{SMALL}", Body=b"other")
    ran = fetch.run("copy", source, revision=revision)
    assert ran.report["code"] == "RevisionNotFound"
    assert fetch.run("resolve", source).report["revision"] != revision


def test_a_partial_file_goes_on_and_a_broken_stream_too(
    fetch: Runner, store: Any, source: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    revision = fetch.run("resolve", source).report["revision"]
    folder = fetch.folder / copies.folder(source, revision)
    folder.mkdir(parents=True)
    (folder / f"{BIG}.incomplete").write_bytes(model()[BIG][:800_000])
    starts: list[int] = []
    real: Stream = bucket.Bucket.stream

    def recorded(self: Any, listing: Any, file: Any, offset: int) -> Any:
        if file.path == BIG:
            starts.append(offset)
        return real(self, listing, file, offset)

    monkeypatch.setattr(bucket.Bucket, "stream", recorded)
    assert fetch.run("copy", source, revision=revision).code == 0
    assert starts == [800_000]
    assert copied(fetch, source, revision) == wanted()


def test_a_wrong_partial_file_is_found_by_its_hash(fetch: Runner, store: Any, source: dict[str, Any]) -> None:
    revision = fetch.run("resolve", source).report["revision"]
    folder = fetch.folder / copies.folder(source, revision)
    folder.mkdir(parents=True)
    (folder / f"{BIG}.incomplete").write_bytes(bytes(800_000))
    assert fetch.run("copy", source, revision=revision).code == 0
    assert copied(fetch, source, revision) == wanted()


def test_an_object_that_was_uploaded_in_parts_is_copied(
    fetch: Runner, store: Any, source: dict[str, Any]
) -> None:
    big = model(4_000_000)[BIG]
    made = store.create_multipart_upload(Bucket="models", Key=f"team/tiny/{BIG}")
    given = {"Bucket": "models", "Key": f"team/tiny/{BIG}", "UploadId": made["UploadId"]}
    half = 6 << 20
    parts = [
        {"PartNumber": n, "ETag": store.upload_part(**given, PartNumber=n, Body=body)["ETag"]}
        for n, body in ((1, big[:half]), (2, big[half:]))
    ]
    store.complete_multipart_upload(**given, MultipartUpload={"Parts": parts})
    revision = fetch.run("copy", source).report["revision"]
    assert copied(fetch, source, revision)[BIG] == big


def test_an_etag_under_a_kms_key_is_no_hash(
    fetch: Runner, store: Any, source: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """moto's ETag stays the MD5, so a hash that does not fit is put in its place."""
    real = bucket._file

    def other(path: str, item: dict[str, Any]) -> Any:
        file = real(path, item)
        return replace(file, digest=Digest("md5", "0" * 32)) if path == SMALL else file

    monkeypatch.setattr(bucket, "_file", other)
    assert fetch.run("copy", source).report["code"] == "ChecksumMismatch"
    content = model()[SMALL]
    store.put_object(Bucket="models", Key=f"team/tiny/{SMALL}", Body=content, ServerSideEncryption="aws:kms")
    assert fetch.run("copy", source).code == 0


def test_a_half_uploaded_folder_is_refused(fetch: Runner, store: Any, source: dict[str, Any]) -> None:
    store.delete_object(Bucket="models", Key=f"team/tiny/{SMALL}")
    assert fetch.run("resolve", source).report["code"] == "WeightsIncomplete"
    ran = fetch.run("copy", source)
    assert ran.report["code"] == "WeightsIncomplete"
    assert SMALL in ran.report["message"]
    assert not list(fetch.folder.rglob(".complete-*"))


@pytest.mark.parametrize(
    ("uri", "code"),
    [("s3://missing-bucket/x", "BucketNotFound"), ("s3://models/nowhere", "ModelNotFound")],
)
def test_what_is_not_there_is_named(fetch: Runner, store: Any, endpoint: str, uri: str, code: str) -> None:
    ran = fetch.run("resolve", {"s3": {"uri": uri, "endpoint": endpoint}})
    assert (ran.code, ran.report["code"]) == (1, code)


def test_a_store_that_refuses_keeps_the_secret(fetch: Runner) -> None:
    class Refuses(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<Error><Code>SignatureDoesNotMatch</Code><Message>no</Message></Error>"
            self.send_response(403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Refuses)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    (fetch.secrets / "accessKey").write_text(KEY)
    (fetch.secrets / "secretKey").write_text(SECRET)
    url = f"http://127.0.0.1:{server.server_address[1]}"
    ran = fetch.finish(fetch.start("resolve", {"s3": {"uri": "s3://models/x", "endpoint": url}}))
    server.shutdown()
    assert (ran.code, ran.report["code"]) == (1, "AccessDenied")
    assert SECRET not in ran.output + str(ran.report)
    assert "credentialsSecretRef" in ran.report["hint"]


def test_a_secret_with_one_half_of_the_pair_is_named_by_its_keys(fetch: Runner) -> None:
    (fetch.secrets / "secret-key").write_text(SECRET)
    ran = fetch.run("resolve", {"s3": {"uri": "s3://models/x", "endpoint": "http://127.0.0.1:9"}})
    assert ran.report["code"] == "AccessDenied"
    assert "secret-key" in ran.report["message"]
    assert SECRET not in ran.output + str(ran.report)


def test_a_store_that_does_not_answer_is_named(fetch: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = fetch.run("resolve", {"s3": {"uri": "s3://models/x", "endpoint": "http://127.0.0.1:9"}})
    assert ran.report["code"] == "HubUnreachable"
    assert "127.0.0.1:9" in ran.report["message"]
