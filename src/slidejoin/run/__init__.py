"""Two sets of files joined into another: what ``slidejoin run`` does.

``text`` and ``sql`` read the condition and the window, ``files`` the rows (``formats`` names the formats,
``csv_blocks`` parses CSV, ``bad_value`` finds the row that cannot be read); ``job`` checks that all fits.
``embedded`` joins in this process, through ``merge``, with threads ahead and behind (``ahead``), and
``spark`` on Spark. ``target`` says where the result goes, ``write`` writes it through ``encode``, and
``output`` makes it appear whole or not at all. ``recovery`` continues a run that was interrupted. ``session``
starts Spark, ``progress`` shows how far a run is, and ``live_page`` serves its page.
"""
