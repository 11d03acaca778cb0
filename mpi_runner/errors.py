"""The errors of a run; each message says what, where, expected, got and remedy."""


class RunError(Exception):
    """Base of every error that a user of a run can cause or meet; the command ends with status 1."""


class ConfigError(RunError, ValueError):
    """A configuration with an unknown key, a wrong type or an impossible value: the command ends with 2."""


class RunFolderError(RunError):
    """A run folder that is missing, unfinished, in use by another run, or not a run folder."""


class RunDirError(RunFolderError, ConfigError):
    """A `run.dir` in a configuration that can be no run folder: the command ends with 2."""


class StoreMismatch(RunError):
    """A checkpoint that was trained on another store."""


class UnequalRanks(RunError):
    """The ranks of one run disagree about the run: another configuration, command or store."""


class RankTimeout(RunError, TimeoutError):
    """A message of another rank that did not come before the deadline."""
