"""A folder of an S3-compatible store."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn
from urllib.parse import urlsplit

import boto3
import botocore
import botocore.exceptions
from botocore.config import Config

from llmservice_operator.fetch import selection
from llmservice_operator.fetch.credentials import Keys
from llmservice_operator.fetch.errors import (
    AccessDenied,
    BucketNotFound,
    HubUnreachable,
    InvalidSource,
    ModelNotFound,
    RevisionNotFound,
)
from llmservice_operator.fetch.origin import Digest, File, Listing, Patience, Transient
from llmservice_operator.fetch.source import BucketSource, is_plain

CHUNK = 1 << 18  # bytes
_DENIED = (
    "AccessDenied",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "InvalidToken",
    "403",
    "401",
)
_LATER = (
    "SlowDown",
    "InternalError",
    "ServiceUnavailable",
    "RequestTimeout",
    "Throttling",
    "ThrottlingException",
)


class Bucket:
    """The objects below one prefix; their names after it are the files' paths."""

    def __init__(self, source: BucketSource, keys: Keys, patience: Patience) -> None:
        self.name = source.uri
        self._source = source
        self._patience = patience
        self._client = _client(source, keys)
        self.host = urlsplit(self._client.meta.endpoint_url).netloc.rpartition("@")[2]

    def listing(self, revision: str | None) -> Listing:
        """All objects below the prefix. The revision is a hash over their names, sizes and ETags.

        Raises:
            RevisionNotFound: it is not ``revision``.
        """
        found = self._patience.keep_trying(self.host, self._objects)
        if not found:
            raise ModelNotFound(f"{self.name} holds no objects", hint="check spec.model.source.s3.uri")
        text = "\n".join(f"{file.path}\0{file.size}\0{file.tag}" for file in found)
        now = hashlib.sha256(text.encode()).hexdigest()[:16]
        if revision and revision != now:
            raise RevisionNotFound(
                f"the objects below {self.name} have changed: they are {now} now, {revision} was resolved",
                hint="change the spec to resolve them anew; upload changed weights under another prefix",
            )
        chosen = selection.choose(file.path for file in found)
        return Listing(
            revision=now,
            files=tuple(file for file in found if file.path in chosen),
            others=tuple(file for file in found if file.path not in chosen),
        )

    def read(self, listing: Listing, file: File) -> bytes:
        def whole() -> bytes:
            with self.stream(listing, file, 0) as (_, chunks):
                return b"".join(chunks)

        return self._patience.keep_trying(self.host, whole)

    @contextmanager
    def stream(self, listing: Listing, file: File, offset: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        wanted: dict[str, Any] = {"Bucket": self._source.bucket, "Key": self._key(file.path)}
        if offset:
            wanted["Range"] = f"bytes={offset}-"
        with self._refusals():
            # IfMatch: never a file of two halves of two versions.
            answer = self._client.get_object(**wanted, IfMatch=f'"{file.tag}"')
            ranged = answer["ResponseMetadata"]["HTTPStatusCode"] == 206
            with answer["Body"] as body:
                yield (offset if ranged else 0), iter(lambda: body.read(CHUNK), b"")

    def certain(self, file: File) -> bool:
        """Whether the ETag is the content's MD5. The listing does not say that a KMS key is in the way."""

        def ask() -> Any:
            with self._refusals():
                return self._client.head_object(Bucket=self._source.bucket, Key=self._key(file.path))

        found = self._patience.keep_trying(self.host, ask)
        encrypted = str(found.get("ServerSideEncryption", "AES256")) != "AES256"
        return not encrypted and not found.get("SSECustomerAlgorithm")

    def _key(self, path: str) -> str:
        return f"{self._source.prefix}/{path}" if self._source.prefix else path

    def _objects(self) -> list[File]:
        start = f"{self._source.prefix}/" if self._source.prefix else ""
        found = []
        with self._refusals():
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._source.bucket, Prefix=start
            )
            for page in pages:
                for item in page.get("Contents", ()):
                    path = item["Key"].removeprefix(start)
                    if is_plain(path):  # a name that ends with a slash is a folder's placeholder
                        found.append(_file(path, item))
        return sorted(found, key=lambda file: file.path)

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """What boto raises, as ours."""
        try:
            yield
        except botocore.exceptions.ClientError as error:
            self._refuse(error)
        except (
            botocore.exceptions.NoCredentialsError,
            botocore.exceptions.CredentialRetrievalError,
        ) as error:
            raise AccessDenied(
                f"no credentials for {self.name}: {type(error).__name__}", hint=_HINT
            ) from None
        except (botocore.exceptions.ParamValidationError, botocore.exceptions.InvalidRegionError) as error:
            raise InvalidSource(f"{self.name} cannot be asked for: {error}") from None
        except botocore.exceptions.BotoCoreError as error:
            raise Transient(f"{type(error).__name__}: {error}") from None
        except TimeoutError as error:
            raise Transient(f"TimeoutError: {error}") from None

    def _refuse(self, error: botocore.exceptions.ClientError) -> NoReturn:
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        if status >= 500 or status in (408, 429) or code in _LATER:
            raise Transient(f"HTTP {status} {code}")
        if code == "NoSuchBucket":
            raise BucketNotFound(
                f"{self.host} has no bucket {self._source.bucket}",
                hint="check spec.model.source.s3.uri and endpoint",
            )
        if code in _DENIED or status in (401, 403):
            raise AccessDenied(f"{self.host} refuses {self.name}: {code} (HTTP {status})", hint=_HINT)
        if code in ("PreconditionFailed", "NoSuchKey", "412", "404"):
            raise RevisionNotFound(
                f"an object below {self.name} was changed or deleted while it was copied",
                hint="change the spec to resolve it anew",
            )
        raise HubUnreachable(f"{self.host} answered HTTP {status} {code} for {self.name}")


_HINT = (
    "name a Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in source.s3.credentialsSecretRef; they need "
    "s3:ListBucket and s3:GetObject"
)


def _client(source: BucketSource, keys: Keys) -> Any:
    session = boto3.session.Session(
        aws_access_key_id=keys.key,
        aws_secret_access_key=keys.secret,
        aws_session_token=keys.session,
        region_name=keys.region,
    )
    settings: dict[str, Any] = {
        "retries": {
            "total_max_attempts": 1
        },  # origin.Patience retries, and goes on instead of starting again
        "connect_timeout": 10,
        "read_timeout": 30,
        # Stores other than AWS know no such checksums.
        "request_checksum_calculation": "when_required",
        "response_checksum_validation": "when_required",
    }
    if source.endpoint:
        settings["s3"] = {"addressing_style": "path"}
    if session.get_credentials() is None:
        settings["signature_version"] = botocore.UNSIGNED  # a public bucket
    return session.client(
        "s3",
        endpoint_url=source.endpoint,
        region_name=session.region_name or "us-east-1",
        verify=os.environ.get("AWS_CA_BUNDLE") or os.environ.get("SSL_CERT_FILE"),
        config=Config(**settings),
    )


def _file(path: str, item: dict[str, Any]) -> File:
    tag = str(item["ETag"]).strip('"')
    # With a dash it is a hash of the parts' hashes. Under a KMS key it is no MD5 either: see Bucket.certain.
    is_md5 = len(tag) == 32 and all(c in "0123456789abcdef" for c in tag)
    return File(path, int(item["Size"]), Digest("md5", tag) if is_md5 else None, tag)
