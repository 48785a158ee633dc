// The source that test_headers has to have: what tests share is its precompiled header.
