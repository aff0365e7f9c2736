"""The accounting of a config, a folder or options: one record, its JSON and its lines.

All numbers are those of `accounting.upper_bounds` and `accounting.lower_bound`, as in a report.

>>> from fl_audit.accounting import Denominator, FixedRounds, Noise, Party, Release
>>> seven = Party(FixedRounds(7))
>>> release = Release(
...     rounds=100,
...     noise=Noise("gaussian", 1.0, 1.0),
...     denominator=Denominator("expected_cohort", 22.0),
...     client=seven,
...     canary=seven,
... )
>>> found = accounted(Source("an example", release, delta=1e-5))
>>> round(found.to_json()["client"]["epsilon"], 2)
14.19
"""

from fl_audit.account.account_lines import account_lines
from fl_audit.account.account_record import AccountRecord, Source, accounted

__all__ = ["AccountRecord", "Source", "account_lines", "accounted"]
