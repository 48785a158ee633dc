// The source file that CMake requires for test_headers, whose purpose is its precompiled header.
