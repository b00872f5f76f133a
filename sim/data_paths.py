"""Where the shipped scenarios and measured runs lie: in a checkout at its root, in a wheel inside the package.

An editable install does not see what a wheel force-includes, so both places are looked at, the checkout first.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def scenarios_dir() -> Path:
    """The folder of ready scenario files. Raises ``FileNotFoundError`` when the installation lacks it."""
    return _data_dir("scenarios")


def measured_dir() -> Path:
    """The folder of published measured runs. Raises ``FileNotFoundError`` when the installation lacks it."""
    return _data_dir("validation") / "measured"


def micro_dir() -> Path:
    """The folder of published micro-benchmarks. Raises ``FileNotFoundError`` when the installation lacks it."""
    return _data_dir("validation") / "micro"


def steps_dir() -> Path:
    """How much steps of published jobs differ (``validation/steps``)."""
    return _data_dir("validation") / "steps"


def residuals_file() -> Path:
    """The table of how far predictions of published runs were off; it may not exist yet in a checkout.

    Raises ``FileNotFoundError`` when the installation lacks its folder.
    """
    return _data_dir("validation") / "residuals.csv"


def cases_file() -> Path:
    """The reported cases that ``sim explain`` learns from. Raises ``FileNotFoundError`` when the installation lacks its folder."""
    return _data_dir("validation") / "cases.yaml"


def _data_dir(name: str) -> Path:
    checkout = _PACKAGE.parent
    if (checkout / "pyproject.toml").is_file() and (checkout / name).is_dir():
        return checkout / name
    packaged = _PACKAGE / "shipped" / name
    if packaged.is_dir():
        return packaged
    raise FileNotFoundError(
        f"this installation of trainsim has no {name}/: looked in {checkout} and {packaged}"
    )
