"""The live page of a join: one page, served on loopback, that shows how the join runs.

``watch`` starts it, ``feed`` makes the points of its plots from a join, ``server`` answers the browser, and
``static/`` is the page itself: HTML, style and script, without anything from elsewhere.
"""
