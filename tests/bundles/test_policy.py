"""What a page of the site may load and run."""

import hashlib
import re
from base64 import b64decode

from benchmark.bundles.site import pages
from tests.report.carried import Page


def test_a_page_runs_its_own_script_alone():
    text = pages.render(pages.Page(path="index.html", title="Leaderboard", parts=()))
    (policy,) = (attrs["content"] for tag, attrs in Page(text).found if tag == "meta" and "http-equiv" in attrs)
    parts = re.findall(r"<(script|style)>(.*?)</\1>", text, re.DOTALL)
    digests = {kind: hashlib.sha256(content.encode()).digest() for kind, content in parts}
    allowed = dict(re.findall(r"(script|style)-src 'sha256-([\w+/=]+)'(?:;|$)", policy))
    assert {kind: b64decode(digest) for kind, digest in allowed.items()} == digests
    assert policy.startswith("default-src 'none'; ")
    assert policy.endswith("; img-src data:; base-uri 'none'; form-action 'none'")
