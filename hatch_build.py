"""Packs the template into the wheel as one archive, and refuses a changed sealed version.

Editable installs are left alone: they read the work tree.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parent))
from scaffolder import packing


class TemplateBundle(BuildHookInterface):  # type: ignore[type-arg]
    """Adds `scaffolder/templates.tar.xz`: every sealed version and the one being built."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the bundle to a temporary folder and have it included."""
        if version == "editable":
            return
        root = Path(self.root)
        bundle = packing.bundle(packing.all_versions(root, self.metadata.version))
        self._folder = tempfile.TemporaryDirectory(prefix="scaffolder-build-")
        path = Path(self._folder.name) / packing.BUNDLE_NAME
        path.write_bytes(bundle)
        build_data["force_include"][str(path)] = f"scaffolder/{packing.BUNDLE_NAME}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder."""
        del build_data, artifact_path
        if version != "editable":
            self._folder.cleanup()
