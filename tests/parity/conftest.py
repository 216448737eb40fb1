"""These tests need PyTorch and transformers: they run with QKV_TEST_TORCH=1 and are left out otherwise."""

import os

if os.environ.get("QKV_TEST_TORCH") != "1":
    collect_ignore_glob = ["test_*.py"]


def pytest_report_header():
    """Says so where they are left out."""
    return None if os.environ.get("QKV_TEST_TORCH") == "1" else "tests/parity left out (QKV_TEST_TORCH=1 makes it run)"
