"""Packages of PyPI, fetched by pip, which checks each file's hash before it opens it."""
from course_base import capture


def fetch(pip, packages, folder, *flags):
    """Fetches each (name, version, sha256) into the folder: ({name: path} of those that came, what pip said last)."""
    wanted = folder / "wanted.txt"
    wanted.write_text("".join(f"{name}=={version} --hash=sha256:{sha256}\n" for name, version, sha256 in packages))
    _, said = capture([*pip, "download", "-q", "--no-deps", "--retries", "1", "--timeout", "15", *flags, "-d", folder, "-r", wanted])
    found = {name: path for name, version, _ in packages for path in folder.glob(f"{name}-{version}[.-]*")}
    return found, (said.strip().splitlines() or ["no word from pip"])[-1]
