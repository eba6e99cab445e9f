"""How far an observation is believed, from what spoke for it and against it, and the clock (pure).

All is counted in whole hundredths. Decay is worked out from the time of the last support and is
never taken off again because somebody looked: asking twice gives the same answer twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from memplane.errors import SettingsError

MIN_HUNDREDTHS: Final = 0
MAX_HUNDREDTHS: Final = 100
_MAX_PERIOD: Final = timedelta(days=3650)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How much each kind of evidence weighs, in hundredths, and how soon belief fades.

    Args:
        initial: What a new observation begins with.
        reinforce: What support adds.
        contradict: What a contradiction takes off.
        grace: How long nothing is taken off after the last support.
        decay: What each complete period after the grace takes off.
        period: How long such a period is.
        threshold: An observation below it is inactive; one that is exactly there is active.

    Raises:
        SettingsError: A weight is not between 0 and 100, or a time is not usable.
    """

    initial: int = 70
    reinforce: int = 10
    contradict: int = 20
    grace: timedelta = timedelta(days=30)
    decay: int = 10
    period: timedelta = timedelta(days=7)
    threshold: int = 30

    def __post_init__(self) -> None:
        for name in ("initial", "reinforce", "contradict", "decay", "threshold"):
            weight: int = getattr(self, name)
            if not MIN_HUNDREDTHS <= weight <= MAX_HUNDREDTHS:
                raise SettingsError(f"{name} of a confidence profile is {weight}; use 0 to 100")
        if not timedelta() <= self.grace <= _MAX_PERIOD:
            raise SettingsError(f"the grace of {self.grace} is not between 0 and 3650 days")
        if not timedelta() < self.period <= _MAX_PERIOD:
            raise SettingsError(f"decay every {self.period} is not between 0 and 3650 days")


DEFAULT_PROFILE: Final = Profile()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceState:
    """What is stored of an observation's confidence, as of the last thing that happened to it.

    Args:
        value: Hundredths, with the decay of `weeks_charged` already taken off.
        last_supported: When somebody last stood behind it; decay is counted from here.
        weeks_charged: The complete periods after the grace that `value` has paid for.
        pinned: Whether it is kept from decay.
    """

    value: int
    last_supported: datetime
    weeks_charged: int = 0
    pinned: bool = False


def create_state(at: datetime, profile: Profile = DEFAULT_PROFILE) -> ConfidenceState:
    """Begin with an observation that is new."""
    return ConfidenceState(value=profile.initial, last_supported=_utc(at))


def add_support(
    standing: ConfidenceState, at: datetime, profile: Profile = DEFAULT_PROFILE
) -> ConfidenceState:
    """Add one session's support, which also starts the grace anew."""
    settled_now = charge_decay(standing, at, profile)
    return _refreshed(settled_now, settled_now.value + profile.reinforce, at)


def add_contradiction(
    standing: ConfidenceState, at: datetime, profile: Profile = DEFAULT_PROFILE
) -> ConfidenceState:
    """Take off one session's contradiction; the grace goes on as it was."""
    settled_now = charge_decay(standing, at, profile)
    return replace(settled_now, value=clamp(settled_now.value - profile.contradict))


def set_value(
    standing: ConfidenceState, value: int, at: datetime, profile: Profile = DEFAULT_PROFILE
) -> ConfidenceState:
    """Take the value that an operator gives, clamped to 0 and 100; it counts as support."""
    return _refreshed(charge_decay(standing, at, profile), value, at)


def renew_grace(
    standing: ConfidenceState, at: datetime, profile: Profile = DEFAULT_PROFILE
) -> ConfidenceState:
    """Start the grace anew because an operator wrote the text; the value stays what it is now."""
    settled_now = charge_decay(standing, at, profile)
    return _refreshed(settled_now, settled_now.value, at)


def pin_state(
    standing: ConfidenceState, at: datetime, profile: Profile = DEFAULT_PROFILE
) -> ConfidenceState:
    """Keep the value from decay, beginning with what is left of it now."""
    return replace(charge_decay(standing, at, profile), pinned=True)


def unpin_state(standing: ConfidenceState, at: datetime) -> ConfidenceState:
    """Let the value decay again, counted from now.

    The weeks under the pin are forgiven and a full grace begins, as after any other act of an
    operator: what was kept for a year must not fall on the day the pin is taken out.
    """
    if not standing.pinned:
        return standing
    return replace(_refreshed(standing, standing.value, at), pinned=False)


def charge_decay(
    standing: ConfidenceState, at: datetime, profile: Profile = DEFAULT_PROFILE
) -> ConfidenceState:
    """Take off the decay that is due and not yet taken off, and note that it was.

    At an earlier time than the last one nothing changes: a clock that is moved back must not
    give back what was taken.
    """
    due = _weeks_due(standing, at, profile)
    if standing.pinned or due <= standing.weeks_charged:
        return standing
    lost = profile.decay * (due - standing.weeks_charged)
    return replace(standing, value=clamp(standing.value - lost), weeks_charged=due)


def value_at(
    standing: ConfidenceState, moment: datetime, profile: Profile = DEFAULT_PROFILE
) -> int:
    """Tell the confidence at a moment, in hundredths; nothing is changed by asking."""
    return charge_decay(standing, moment, profile).value


def is_active(
    standing: ConfidenceState, moment: datetime, profile: Profile = DEFAULT_PROFILE
) -> bool:
    """Say whether the confidence at a moment reaches the threshold."""
    return value_at(standing, moment, profile) >= profile.threshold


def predict_inactive_at(
    standing: ConfidenceState, profile: Profile = DEFAULT_PROFILE
) -> datetime | None:
    """Tell when decay will take it below the threshold if nothing else happens.

    The moment may have passed already. There is none for what does not decay, and none for a
    value that is below the threshold as it stands.
    """
    spare = standing.value - profile.threshold
    if standing.pinned or not profile.decay or not profile.threshold or spare < 0:
        return None
    periods = standing.weeks_charged + spare // profile.decay + 1
    return _utc(standing.last_supported) + profile.grace + periods * profile.period


def clamp(value: int) -> int:
    """Bring a value between 0 and 100."""
    return max(MIN_HUNDREDTHS, min(MAX_HUNDREDTHS, value))


def _refreshed(standing: ConfidenceState, value: int, at: datetime) -> ConfidenceState:
    """Give a standing another value and start its grace anew."""
    moment, last = _utc(at), _utc(standing.last_supported)
    if moment < last:
        # The clock was moved back. The support counts, but the later time stays, and so do the
        # weeks that were paid for after it.
        return replace(standing, value=clamp(value))
    return replace(standing, value=clamp(value), last_supported=moment, weeks_charged=0)


def _weeks_due(standing: ConfidenceState, at: datetime, profile: Profile) -> int:
    beyond = _utc(at) - _utc(standing.last_supported) - profile.grace
    return max(0, beyond // profile.period)


def _utc(moment: datetime) -> datetime:
    """Bring a moment to UTC; in another zone a day may have 23 hours or 25."""
    if moment.utcoffset() is None:
        raise ValueError(f"{moment} has no time zone; confidence needs one")
    return moment.astimezone(UTC)
