// An empty source: CMake requires one for the target test_headers, which only provides a precompiled header.
