#!/usr/bin/env python3
"""Writes data/tokenizers/unicode_table.h: Unicode 16's letters, numbers, white space, and cases of letters.

Usage: make_unicode_table.py > data/tokenizers/unicode_table.h

The regular expressions of Hugging Face's tokenizers use Unicode 16. Python's unicodedata may have another version, so
the package unicodedata2==16.0.0 is used if installed."""

import sys

try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata

VERSION = "16.0.0"
# Unicode's property White_Space (PropList.txt). str.isspace() isn't the same: it includes U+001C to U+001F.
WHITE_SPACE = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F,
               0x3000}
OTHER, LETTER, NUMBER, SPACE = range(4)  # same as in data/tokenizers/unicode.h


def class_of(code_point):
    if code_point in WHITE_SPACE:
        return SPACE
    return {"L": LETTER, "N": NUMBER}.get(unicodedata.category(chr(code_point))[0], OTHER)


NO_CASE, UPPER, LOWER, EITHER = range(4)  # same as LetterCase in data/tokenizers/unicode.h


def case_of(code_point):
    category = unicodedata.category(chr(code_point))
    if category[0] == "M":
        return EITHER
    return {"Lu": UPPER, "Lt": UPPER, "Ll": LOWER, "Lm": EITHER, "Lo": EITHER}.get(category, NO_CASE)


def print_table(name, kind_of):
    starts = []
    previous = None
    for code_point in range(0x110000):
        current = kind_of(code_point)
        if current != previous:
            starts.append(f"0x{code_point << 2 | current:06X}")
        previous = current
    print(f"inline constexpr std::array<uint32_t, {len(starts)}> {name} = {{")
    for i in range(0, len(starts), 12):
        print("    " + ", ".join(starts[i:i + 12]) + ",")
    print("};")


def main():
    if unicodedata.unidata_version != VERSION:
        sys.exit(f"this Python knows Unicode {unicodedata.unidata_version}; pip install unicodedata2=={VERSION}")
    print(f"// Written by scripts/make_unicode_table.py from Unicode {VERSION}: where a class begins, as first << 2 | class.")
    print("#pragma once\n\n#include <array>\n#include <cstdint>\n\nnamespace folio::data {\n\n// clang-format off")
    print_table("kUnicodeClasses", class_of)
    print()
    print_table("kUnicodeCases", case_of)
    print("// clang-format on\n\n}  // namespace folio::data")


if __name__ == "__main__":
    main()
