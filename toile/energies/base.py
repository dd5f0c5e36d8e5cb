"""placeholder, filled by the numerics"""
from toile.plugins import Plugin
class Energy(Plugin):
    pass
