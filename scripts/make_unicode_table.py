#!/usr/bin/env python3
"""Write data/tokenizers/unicode_table.h: which characters are letters, numbers and white space in Unicode 16, and the
cases of letters.

Usage: make_unicode_table.py > data/tokenizers/unicode_table.h

Unicode 16 is what the regular expressions of Hugging Face's tokenizers know. Python's own unicodedata is of some other
version, so the package unicodedata2==16.0.0 is asked where it is installed.
"""

import sys

try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata

VERSION = "16.0.0"
# The property White_Space (PropList.txt), which is not in the module; str.isspace() counts U+001C to U+001F too.
WHITE_SPACE = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F,
               0x3000}
OTHER, LETTER, NUMBER, SPACE = range(4)  # as in data/tokenizers/unicode.h


def class_of(code_point):
    if code_point in WHITE_SPACE:
        return SPACE
    return {"L": LETTER, "N": NUMBER}.get(unicodedata.category(chr(code_point))[0], OTHER)


NO_CASE, UPPER, LOWER, EITHER = range(4)  # LetterCase there


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
