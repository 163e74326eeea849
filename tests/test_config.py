"""``Config`` reads the environment; ``available_threads`` honours affinity and control groups."""

from pathlib import Path

import pytest

from snell.config import Config, available_threads
from snell.errors import ConfigError

HOME = Path("/home/ada")


def read(environ: dict[str, str], platform: str = "linux") -> Config:
    return Config.from_environment(environ, platform=platform, home=HOME)


def test_a_process_without_a_home_has_its_folders_below_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(_: type[Path]) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", classmethod(homeless))
    assert Config.from_environment({}, platform="linux").cache_dir == Path("/.cache/snell")


def test_an_empty_home_does_not_put_the_cache_into_the_current_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "")
    assert Config.from_environment({}, platform="linux").cache_dir == Path("/.cache/snell")


def test_a_folder_of_an_unknown_user_names_its_variable() -> None:
    with pytest.raises(ConfigError, match="SNELL_CACHE_DIR"):
        read({"SNELL_CACHE_DIR": "~nobody-of-this-name/cache"})


def test_an_empty_environment_gives_the_defaults() -> None:
    config = read({})
    assert config.threads is None
    assert config.cache_dir == HOME / ".cache/snell"
    assert config.data_dir == HOME / ".local/share/snell"
    assert config.cache_limit_bytes == 4 * 2**30
    assert not config.verify_passes
    assert config.search == "off"


def test_snell_variables_win_over_the_platform_folders() -> None:
    config = read({"SNELL_CACHE_DIR": "/fast/cache", "SNELL_DATA_DIR": "/big/data", "XDG_CACHE_HOME": "/xdg"})
    assert config.cache_dir == Path("/fast/cache")
    assert config.data_dir == Path("/big/data")


def test_xdg_folders_are_used_on_linux_and_relative_ones_ignored() -> None:
    config = read({"XDG_CACHE_HOME": "/xdg/cache", "XDG_DATA_HOME": "relative"})
    assert config.cache_dir == Path("/xdg/cache/snell")
    assert config.data_dir == HOME / ".local/share/snell"


def test_macos_uses_the_library_folders() -> None:
    config = read({"XDG_CACHE_HOME": "/xdg"}, platform="darwin")
    assert config.cache_dir == HOME / "Library/Caches/snell"
    assert config.data_dir == HOME / "Library/Application Support/snell"


def test_windows_uses_local_app_data() -> None:
    config = read({"LOCALAPPDATA": "/appdata"}, platform="win32")
    assert config.cache_dir == Path("/appdata/snell/cache")
    assert config.data_dir == Path("/appdata/snell/data")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1024", 1024), ("4GiB", 4 * 2**30), ("1.5 MiB", 3 * 2**19), ("2GB", 2 * 10**9), ("10kb", 10_000)],
)
def test_the_cache_limit_accepts_bytes_and_units(text: str, expected: int) -> None:
    assert read({"SNELL_CACHE_LIMIT": text}).cache_limit_bytes == expected


@pytest.mark.parametrize(("text", "expected"), [("off", "off"), ("full", "full"), ("30", 30.0), ("0.5", 0.5)])
def test_the_search_budget_is_a_word_or_seconds(text: str, expected: object) -> None:
    assert read({"SNELL_SEARCH": text}).search == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SNELL_THREADS", "0"),
        ("SNELL_THREADS", "two"),
        ("SNELL_CACHE_LIMIT", "4 parsecs"),
        ("SNELL_CACHE_LIMIT", "-1"),
        ("SNELL_VERIFY", "perhaps"),
        ("SNELL_SEARCH", "-3"),
        ("SNELL_SEARCH", "nan"),
    ],
)
def test_an_ill_formed_value_names_its_variable(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        read({name: value})


def test_threads_and_verify_are_read() -> None:
    config = read({"SNELL_THREADS": "3", "SNELL_VERIFY": "1"})
    assert config.threads == 3
    assert config.verify_passes


def threads(tmp_path: Path, membership: str, files: dict[str, str], allowed: int = 8) -> int:
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "membership").write_text(membership)
    return available_threads(allowed=allowed, cgroup_root=tmp_path / "cgroup", membership=tmp_path / "membership")


def test_without_a_quota_every_allowed_core_counts(tmp_path: Path) -> None:
    assert threads(tmp_path, "0::/\n", {"cpu.max": "max 100000\n"}) == 8


def test_a_version_2_quota_cuts_the_count_and_is_rounded_up(tmp_path: Path) -> None:
    assert threads(tmp_path, "0::/\n", {"cpu.max": "150000 100000\n"}) == 2


def test_the_tightest_quota_of_the_enclosing_groups_counts(tmp_path: Path) -> None:
    files = {"a/cpu.max": "300000 100000", "a/b/cpu.max": "max 100000"}
    assert threads(tmp_path, "0::/a/b\n", files) == 3


def test_a_version_1_quota_cuts_the_count(tmp_path: Path) -> None:
    files = {"cpu,cpuacct/box/cpu.cfs_quota_us": "200000\n", "cpu,cpuacct/box/cpu.cfs_period_us": "100000\n"}
    assert threads(tmp_path, "7:memory:/box\n4:cpu,cpuacct:/box\n", files) == 2


def test_a_version_1_group_of_the_host_falls_back_to_the_mounted_root(tmp_path: Path) -> None:
    files = {"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "50000"}
    assert threads(tmp_path, "4:cpu:/docker/0123\n", files) == 2


def test_an_unlimited_version_1_group_sets_no_limit(tmp_path: Path) -> None:
    files = {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}
    assert threads(tmp_path, "4:cpu:/\n", files) == 8


def test_a_tiny_quota_still_leaves_one_thread(tmp_path: Path) -> None:
    assert threads(tmp_path, "0::/\n", {"cpu.max": "1000 100000"}) == 1


def test_the_affinity_mask_bounds_a_generous_quota(tmp_path: Path) -> None:
    assert threads(tmp_path, "0::/\n", {"cpu.max": "6400000 100000"}, allowed=2) == 2


def test_this_machine_has_at_least_one_thread() -> None:
    assert available_threads() >= 1
