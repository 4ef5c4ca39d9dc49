"""Shell scripts as programs."""

from pathlib import Path


def shell_script(path: Path, text: str) -> Path:
    """Write a program that carries out this text."""
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path
