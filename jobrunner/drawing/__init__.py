"""Pictures of declared lifecycles: text for mermaid, and SVG that needs nothing else.

The rules of this room: it is pure, it reads declarations, and it knows nothing of jobs. ``layout``
knows boxes and lines and no workflow; ``labels`` knows the words; ``mermaid`` and
``svg`` draw it.

The idea: the picture is drawn from the same table that decides, so it cannot be out of date.

Deliberately absent: a drawing library, fonts, scripts. The SVG is a text that any browser shows.
"""
