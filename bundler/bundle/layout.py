"""Names and bounds of a bundle's generated files."""

#: The generated files of a bundle.
MANIFEST_NAME = "manifest.json"
PROVIDER_NAME = "provider.yaml"

#: Files in one bundle; a build refuses more.
MAX_FILES = 200_000
#: The largest manifest.json that is read, in bytes and in values. It is generated, so the bounds of what an
#: author writes do not fit it: 200,000 files have one of 40 MiB.
MAX_MANIFEST_BYTES = 128 * 1024 * 1024
MAX_MANIFEST_VALUES = 2_000_000
