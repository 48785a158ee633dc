"""Templates, handwritten and random, with which tests compare Folio's Jinja with jinja2."""

VARIABLES = {"s": "Hello, World", "empty": "", "w": "  a b\t c \n", "u": "Où 中文 😀 É", "q": "it's \"so\" \\ \n", "n": 7, "z": 0,
             "f": 2.5, "t": True, "o": False, "none_": None, "l": [3, 1, 2], "names": ["b", "A", "c", "b"], "el": [],
             "d": {"k": "v", "items": 1, "n": {"m": [1, {"deep": "x"}]}},
             "people": [{"name": "Ann", "age": 30}, {"name": "bob", "age": 4}, {"name": "Cy"}]}

EXPRESSIONS = """
-7 % 3 | 7 % -3 | true + 1 | not t | not not empty | -f | - n | t == 1 | l == [3, 1, 2] | (1,) == [1] | d == d | none_ == none | 1 < 2 < 3
1 < 3 < 2 | 'a' < 'b' | [1, 2] < [1, 3] | s ~ n ~ none_ ~ t | 'a' + 'b' ~ 'c' + 'd' | 'a' 'b' "c" | [1] + [2] | (1,) + (2,) | 1 if t else 2
1 if o else 2 | 1 if o | (1 if o else 2 if o else 3) | s if empty else l | empty or s | t and s | o or z | z and s | s[0] | s[-1] | s[100]
s[1:4] | s[:-3] | s[::-1] | s[::2] | s[8:2:-2] | s[-100:100] | u[1:6] | l[1:] | l[::-1] | l[-2] | l[99] | d.k | d['k'] | d.n.m[1].deep
d['n']['m'].0 | d.missing | d.n.missing | d['items'] | d.get('k') | d.get('x') | d.get('x', 5) | d.items() | list | length
(d.items() | list)[0] | l | length | s | length | empty | length | undefined_ | length | 'Wor' in s | 'x' in s | '' in s | 3 in l
9 not in l | 'k' in d | 'z' in d | not 1 in l | 1 in undefined_ | x is defined | s is defined | x is not defined | none_ is none | s is none
s is string | n is string | t is boolean | t is true | o is false | n is true | l is iterable | s is iterable | n is iterable | d is mapping
l is mapping | l is sequence | d is sequence | x is sequence | x is iterable | s is equalto 'x' | s | upper | s | lower
'hELLO wORLD' | capitalize | u | upper | w | trim | w.strip() | w.lstrip() | w.rstrip() | 'xxaxx'.strip('x') | 'xyaxy'.lstrip('yx')
'abc' | trim('ac') | w.strip() | length | s.split(', ') | w.split() | 'a b  c '.split(none, 1) | 'a,b,,c'.split(',') | 'a,b,c'.split(',', 1)
''.split(',') | 'a</t>b</t>c'.split('</t>')[-1] | ''.split() | 'aaa'.split('aa') | s.startswith('Hell') | s.startswith(('x', 'H'))
s.endswith('d') | s.replace('l', 'L') | s.replace('l', 'L', 1) | s | replace('o', '0') | 'abc'.replace('', '-') | s | replace('l', '', 2)
''.replace('', 'x') | 'abab'.replace('ab', 'ba') | l | join(', ') | names | join | [1, none, true] | join('-') | names | map('upper') | list
names | map('replace', 'b', 'x') | list | people | selectattr('age') | list | length | d | items | list | length | undefined_ | items | list
l | list | s | list | undefined_ | default('x') | empty | default('x') | empty | default('x', true) | none_ | default('x') | s | default
n | string | none_ | string | l | string | s | safe | d | tojson | l | tojson | u | tojson | q | tojson | none_ | tojson | t | tojson
f | tojson | {} | tojson | [] | tojson | d | tojson(indent=2) | u | tojson(ensure_ascii=true) | [] | tojson(indent=2)
{1: 2, true: 3, none: 4} | tojson | '\\x01\\x7f/' | tojson | {'a': 1, 'b': 2, 'a': 3} | (1, 'x') | tojson | l | d | (1,) | ()
{'a': {'b': (1, 2)}} | ["it's", 'say "x"', 'both \\' "'] | ['\\t\\x00\\x7f\\xa0\\u200b\\ue000'] | range(3) | list | range(1, 4) | list
range(5, 0, -2) | list | range(0) | list | namespace(a=1).a | namespace(a=1).b | '\\u00e9\\x41\\101\\q\\'' | "\\U0001F600" | 'a\\
b' | [1, 2,]
{'a': 1,} | (1, 2,)[0] | d.items is defined | s.nothing is defined | d.update is defined | s[l[1]] | (s | length) + 1 | s|length + 1
n is defined and n > 3 | not n is defined or z
n * 2 | n / 2 | n // 2 | -n // 2 | n ** 2 | 2 ** -1 | -2 ** 2 | 2 ** 3 ** 2 | n % 4 * 2 | 1.5 | 2.0 * 3 | 7.5 // 2 | -7.5 % 2 | 1e3 | 1.5e-7 | 1_000 | 0x1F
0b101 | 0o17 | +n | +f | 's' * 3 | 2 * [1, 2] | 3 * (1,) | s * -1 | 1 / 3 | 10 / 5 | 2 ** 0.5 | 0.1 + 0.2 | 1e16 | 1e15 | 123456789.125 | '%s-%d' % ('a', 3)
'%05.1f|%-5s|%+d|%x|%#o|%c|%r|%%' % (f, 'ab', n, 255, 8, 'z', s) | '%(k)s' % d | '%s' % l | '%s' % 5 | '%*d' % (5, 42) | '%.2s' % 'abc' | '%e' % f | '%g' % 1e10
s.upper() | s.lower() | s.title() | s.swapcase() | s.find('o') | s.find('o', 5) | s.find('z') | s.rfind('o') | s.index('W') | s.count('l') | s.count('') | ''.count('')
s.rsplit('o', 1) | w.rsplit() | w.rsplit(none, 1) | 'a b c'.rsplit(' ', 1) | 'a,b,c'.partition(',') | 'a,b,c'.rpartition(',') | s.partition('x') | s.rpartition('x')
q.splitlines() | 'a\\nb\\r\\nc\\u2028d\\n'.splitlines() | 'a\\nb\\n'.splitlines(true) | ', '.join(names) | ''.join([]) | 'abc'.removeprefix('ab') | 'abc'.removesuffix('bc')
'ab'.ljust(5, '.') + '|' | 'ab'.rjust(5) | 'ab'.center(5) | 'abc'.center(6, '*') | '-7'.zfill(4) | '-5'.zfill(-9223372036854775807 - 1) | '42'.zfill(5) | 'abc'.isalpha() | 'ab1'.isalnum() | '12'.isdigit()
'12'.isdecimal() | '12'.isnumeric() | ' \\n'.isspace() | 'aB'.islower() | 'AB1'.isupper() | ''.isalpha() | d.keys() | list | d.values() | list | l.count(3) | l.index(1)
range is callable | undefined_ is callable | n is in l | 3 is in(l) | n is divisibleby 7 | n is divisibleby(2) | dict(a=1, b='x') | dict([('a', 1)]) | dict({'a': 1}, b=2)
namespace({'a': 1}).a | d | tojson(sort_keys=true) | d | tojson(separators=(',', ':')) | {'b': 1, 'a': {'d': 1, 'c': [1]}} | tojson(sort_keys=true, indent=2, separators=(',', ': '))
people | groupby('name') | list | people | map(attribute='age', default=0) | list | people | map(attribute='age') | map('default', 5) | list | (people | groupby('age', default=0) | first).list
(people | groupby('name') | last).grouper | people | sort(attribute='name') | map(attribute='name') | list | [{'a': 1, 'b': 2}, {'a': 1, 'b': 1}] | sort(attribute='a,b')
d.n | attr('m') | (s | attr('upper'))() | d | attr('items') is defined | 'upper' is filter | 'nope' is filter | 'odd' is test | 'nope' is test
""".strip()


def split_expressions(text):
    """Splits a text at line breaks and at each " | ", except within brackets and before a filter's name. Returns the
    parts."""
    import jinja2.parser
    environment = jinja2.Environment()
    parts = []
    for line in text.replace("\\\n", "\0").split("\n"):
        pieces = [piece.replace("\0", "\\\n") for piece in line.split(" | ")]
        current = pieces[0]
        for piece in pieces[1:]:
            name = piece.split("(")[0].split(" ")[0].split(")")[0].split("[")[0]
            brackets = sum(current.count(c) for c in "([{") - sum(current.count(c) for c in ")]}")
            # "d" is a variable as well as a filter (short for default).
            is_filter = piece.startswith("d(") if name == "d" else name in environment.filters
            if brackets or is_filter:
                current += " | " + piece
            else:
                parts.append(current)
                current = piece
        parts.append(current)
    return parts


BLOCKS = [
    "a\n", "a\n\n", "\n", "a\r\nb\rc", "{# c #}a", "a {#- c -#} b", "  {# c #}\n  b", "{#-#}x", "{# a\nb #}\nc", "{#+ c +#}\nx",
    "{% if t %}\nyes\n{% endif %}\nend", "  {% if t %}\n  yes\n  {% endif %}\n", "a  {%- if t -%}  b  {%- endif -%}  c",
    "  {%+ if t %} x {%+ endif %} y", "{% if t +%}\nx{% endif %}", "{{ n }}\n{{ n }}\n", " {{- n -}} \n x", "{{+ n }}", "x\n  {% set a = 1 %}  \n  y",
    "{% if o %}a{% elif z %}b{% elif n %}c{% else %}d{% endif %}", "{% if o %}a{% endif %}", "{% if x %}a{% else %}b{% endif %}",
    "{% for i in l %}{{ i }},{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for (a, b) in [(1, 2), [3, 4]] %}{{ a + b }} {% endfor %}", "{% for c in s %}{{ c }}.{% endfor %}", "{% for k in d %}{{ k }} {% endfor %}",
    "{% for i in l if i > 1 %}{{ loop.index }}{{ loop.last }}{{ i }} {% endfor %}",
    "{% for i in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{{ loop.previtem }} {% endfor %}",
    "{% for i in l %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in l %}{% for j in l %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}",
    "{% set ns = namespace(on=true) %}{% for i in [1, 2, 3, 4] if ns.on %}{{ i }}{% if i == 2 %}{% set ns.on = false %}{% endif %}{% endfor %}",
    "{% set ns = namespace(on=true) %}{% for i in [1, 2, 3, 4] if ns.on %}{{ i }}{{ loop.last }}{% if i == 2 %}{% set ns.on = false %}{% endif %}{% endfor %}",
    "{% set a = 1 %}{% for i in l %}{% set a = a + i %}{{ a }} {% endfor %}{{ a }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a = 1, 2 %}{{ a }}",
    "{% set (a, b) = l[:2] %}{{ a }}{{ b }}", "{% set a %}x{{ n }}y{% endset %}{{ a }}{{ a is string }}", "{% if t %}{% set a = 5 %}{% endif %}{{ a }}",
    "{% set b = 1 %}{% set a %}{% set b = 2 %}{{ b }}{% endset %}{{ a }}{{ b }}", "{% set n = n + 1 %}{{ n }}",
    "{% set ns = namespace(a=1, b='x') %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}",
    "{% macro m(a, b=2) %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=1, a=2) }}{{ m() }}{{ m(1) | length }}",
    "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(5) }}", "{% macro m(k) %}{{ k }}{% if k %}{{ m(k - 1) }}{% endif %}{% endmacro %}{{ m(3) }}",
    "{% macro m() %}{{ n }}{{ y }}{% endmacro %}{% set y = 4 %}{{ m() }}", "{% macro m() -%}\n x \n{%- endmacro %}[{{ m() }}]",
    "{% set a = 1 %}{% macro m() %}{% set a = 2 %}{{ a }}{% endmacro %}{{ m() }}{{ a }}",
    "{% for i in l %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% set v = 1 %}{% generation %}{% set v = 2 %}g{{ v }}{% endgeneration %}{{ v }}", "{%- generation -%} x {%- endgeneration -%} y",
    "{{ '%}' }}{{ '}}' }}{{ {'a': {'b': 1}}['a']['b'] }}", "{ { % } {", "{{ x }}", "{{ none }}{{ true }}{{ True }}{{ None }}", "{{ d }}",
    "{{ 'x' if n is defined and n else 'y' }}", "{{ (s)(1) if false else 2 }}", "{{ strftime_now('%%') }}",
    "{% for m in people %}{{ m.name }}{{ ' ' + m.age | string if m.age is defined else '' }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{{ 'a' if o }}{{ ('a' if o) is undefined }}", "{% if s is string and s %}1{% endif %}{% if not (empty or z) %}2{% endif %}",
    "{% set x = x | default('d') %}{{ x }}", "{{ 1, 2 }}",
    "{% for i in l %}{{ i }}{% else %}none{% endfor %}", "{% for i in el %}{% else %}none{% endfor %}", "{% for i in l if i > 5 %}{{ i }}{% else %}none{% endfor %}",
    "{% for i in l %}{% break %}{% else %}none{% endfor %}", "{% for i in l %}{% if i < 3 %}{% continue %}{% endif %}{% else %}none{% endfor %}",
    "{% for i in l %}{% continue %}{% else %}none{% endfor %}", "{% for i in l %}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.depth }}{{ loop.depth0 }} {% endfor %}",
    "{% for i in l if i > 1 %}{{ loop.length }}{{ loop.last }}{{ i }} {% endfor %}", "{% for i in l %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for i in [1, 1, 2] %}{{ loop.changed(i) }}{% endfor %}", "{% for i in [1, [2, [3]], 4] recursive %}{% if i is iterable %}({{ loop(i) }}){{ loop.depth }}{% else %}{{ i }}{% endif %}{% endfor %}",
    "a\n{% raw %}\n {{ x }} {% if %} {# c #}\n{% endraw %}\nb", " {%- raw -%} \n{{ y }} {%- endraw -%} \n c", "{% raw %}{% endraw %}", "x  {% raw %} {% endraw +%}\ny",
    "{% filter upper %}a{{ s }}{% endfilter %}", "{% filter replace('a', 'b') | trim %} aa {% endfilter %}", "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% with %}{% set a = 1 %}{{ a }}{% endwith %}{{ a }}", "{% macro m(a) %}[{{ a }}{{ caller() }}]{% endmacro %}{% call m(1) %}body{{ n }}{% endcall %}",
    "{% macro m() %}{{ caller(1, 2) }}{% endmacro %}{% call(a, b=5) m() %}{{ a }}{{ b }}{% endcall %}", "{% print n, 2 %}", "{% set a | upper %}x{{ s }}{% endset %}{{ a }}",
    "{% set a | replace('x', 'y') | title %}xx zx{% endset %}{{ a }}", "{% for i in l %}{% for j in l %}{% if j == 1 %}{% continue %}{% endif %}{{ loop.index }}{% endfor %}{% endfor %}",
    "{% if 'a' in ['a'] and not 'b' in 'abc'[:1] %}ok{% endif %}", "{% set a = [] %}{% for i in l %}{% set a = a + [i] %}{% endfor %}{{ a }}",
]

ACCEPTED = ["{{ " + expression + " }}" for expression in split_expressions(EXPRESSIONS)] + BLOCKS

REFUSED = ["{{ x.y }}", "{{ t is true is true }}", "{{ x[0] }}", "{{ x + 1 }}", "{{ 1 + 'a' }}", "{{ 'a' + 1 }}", "{{ none + 1 }}", "{{ 1 / 0 }}", "{{ 1 // 0 }}",
           "{{ 5 % 0 }}", "{{ 'a' < 1 }}", "{{ n() }}", "{{ x() }}", "{{ s.nope() }}", "{{ l.append(1) }}", "{{ d.update({}) }}", "{{ 1 in 'a' }}",
           "{{ 1 in 2 }}", "{{ n | length }}", "{% for i in 5 %}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
           "{{ s | nope }}", "{{ s is nope }}", "{{ raise_exception('x') }}", "{{ range(200000) }}", "{{ ''.split('') }}", "{{ x | tojson }}",
           "{{ [1, [x]] | tojson }}", "{{ {[]: 1} }}", "{% set q.a = 1 %}", "{% set s.a = 1 %}", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
           "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", "{% macro m(a=1, b) %}{% endmacro %}", "{% if %}{% endif %}", "{% if n %}", "{% endif %}",
           "{% for %}{% endfor %}", "{{ }}", "{{ 1 + }}", "{{ (1 }}", "{{ 1) }}", "{{ [1 }}", "{{ 'a }}", "{{ a b }}", "{% nope %}", "{{ n", "{% if n", "{# x",
           "{% raw %}x", "{% set 1 = 2 %}", "{% set true = 2 %}", "{{ 1 ! 2 }}", "{{ a $ b }}", "{{ '\\x4' }}", "{% for i in l %}{% endif %}", "{{ s[::0] }}",
           "{{ loop.index }}", "{% include 'x' %}", "{% extends 'x' %}", "{% import 'x' as y %}", "{% do n %}", "{{ m(a=1, 2) }}", "{{ s.strip(1) }}",
           "{{ ', '.join(l) }}", "{{ none | items | list }}", "{{ namespace(1) }}", "{{ strftime_now() }}", "{{ l[1:'a'] }}", "{{ n[1:] }}", "{{ -s }}", "{{ people | sort }}", "{{ x | int }}", "{{ none | abs }}",
           "{{ none is odd }}", "{{ x is even }}", "{{ n is divisibleby 0 }}"]

# The condition of a loop asks the same loop for its later items: in loop.length, and between two items.
REFUSED += ["{% set ns = namespace(l=none, on=false) %}{% macro f(i) %}{% if i == 3 and ns.on %}{% set ns.on = false %}{{ ns.l." + member + " }}"
            "{% endif %}1{% endmacro %}{% for i in [1, 2, 3] if f(i) %}{% set ns.l = loop %}{% set ns.on = true %}{{ " + use + " }}{% endfor %}"
            for member in ("length", "last") for use in ("loop.length", "i")]

# Unsupported constructs: HTML, other files, unknown names, unpacked arguments. Parsing must fail and name them.
HTML_FILTERS = {"e", "escape", "forceescape", "striptags", "urlize", "xmlattr"}
GONE = {**{"{{ s | " + name + " }}": name for name in sorted(HTML_FILTERS)}, "{% if o %}{{ s | nope }}{% endif %}": "nope",
        "{% for i in el %}{{ i is nope }}{% endfor %}": "nope", "{{ el | map('nope') | list }}": "nope",
        "{{ el | select('nope') | list }}": "nope", "{{ el | rejectattr('a', 'nope') | list }}": "nope",
        "{{ range(*l) }}": "*", "{{ dict(**d) }}": "*", "{% include 'x' %}": "include", "{% block x %}{% endblock %}": "block"}

KEEPS = {  # with x = "  One, <b>two</b>  ": the part of each template's output that counts as content of a message
    "{{ x }}": "  One, <b>two</b>  ", "{{ x | trim }}": "One, <b>two</b>", "{{ x.strip() + '</b>' }}": "One, <b>two</b>", "{{ x[2:5] ~ 'One' }}": "One",
    "{{ x.split(', ')[1] }}": "<b>two</b>  ", "{{ x | upper }}": "  ONE, <B>TWO</B>  ", "{{ x | replace('<b>', '<i>') }}": "  One, two</b>  ",
    "{{ 'a' | replace('a', x) }}": "  One, <b>two</b>  ", "{{ [x, x] | join('<b>') }}": "  One, <b>two</b>    One, <b>two</b>  ",
    "{{ x | tojson }}": "  One, <b>two</b>  ", "{{ [x] }}": "  One, <b>two</b>  ", "{{ {'k': x}.k }}": "  One, <b>two</b>  ",
    "{% set y %}<b>{{ x }}{% endset %}{{ y }}": "  One, <b>two</b>  ", "{% macro m(a) %}<b>{{ a }}{% endmacro %}{{ m(x) }}": "  One, <b>two</b>  ",
    "{% for c in x %}{{ c }}{% endfor %}": "  One, <b>two</b>  ", "{{ x | list | join }}": "  One, <b>two</b>  ", 
    "{% set ns = namespace(a=x) %}{{ ns.a }}": "  One, <b>two</b>  ", "{{ x[::-1] }}": "  >b/<owt>b< ,enO  ",
    "{{ '<b>' if '<b>' in x }}": "", "{{ x | length }}": "",
    "{{ x | string }}": "  One, <b>two</b>  ", "{{ ([x] | map('trim') | list)[0] }}": "One, <b>two</b>"}

# Builds a string of 1.3 million letters, which the limits of Folio's Jinja allow.
LONG = "{% set ns = namespace(a='aaaaaaaaaa') %}{% for i in range(17) %}{% set ns.a = ns.a + ns.a %}{% endfor %}"

# Operations on long strings are accepted if they are cheap.
ACCEPTED += [LONG + "{{ ns.a.rsplit(ns.a[:500000] + 'b') | length }}", LONG + "{{ ns.a.rfind('a') }}"]

HOSTILE = [
    "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
    "{% set ns = namespace(a='aaaaaaaaaa') %}{% for i in range(100) %}{% set ns.a = ns.a + ns.a %}{% endfor %}", "{{ range(1000000000) }}",
    "{% set ns = namespace(a=[]) %}{% for i in range(100000) %}{% set ns.a = [ns.a] %}{% endfor %}",
    "{% set ns = namespace(a=[]) %}{% for i in range(100000) %}{% set ns.a = [ns.a.count] %}{% endfor %}",
    "{% set ns = namespace(a=[]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a }}",
    "{% set ns = namespace(a=[]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a == ns.a }}",
    "{% set ns = namespace(a=[]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a | tojson }}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "{{ " + "1 + " * 5000 + "1 }}", "{{ " + "not " * 5000 + "1 }}",
    "{{ " + "-" * 5000 + "1 }}", "{{ a" + ".b" * 5000 + " }}", "{{ a" + "|trim" * 5000 + " }}", "{% if 1 %}" * 5000, "{{ " + "[" * 5000, "{{ 9223372036854775807 + 1 }}",
    "{{ 99999999999999999999 }}", "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns.a.a.b.c }}",
    "{% for i in range(100000) %}{{ messages[0].content + messages[0].content }}{% endfor %}", LONG + "{{ raise_exception(ns.a ~ '\\n\\x01') }}",
    LONG + "{{ ns.a.replace('a', ns.a) }}", LONG + "{{ ns.a.split('a') | join(ns.a) }}",
    LONG + "{{ ns.a.rsplit('b' + ns.a[:500000]) }}", LONG + "{{ ns.a.rfind('b' + ns.a[:500000]) }}",
    LONG + "{% for i in range(10000) %}{% set q = (ns.a + 'b') in ns.a %}{% endfor %}", "{{ " + "1 if " * 5000, "{{ x" + "x" * 100000 + ".y }}", "\x01{{", "{{ 'a' ~ }}"]


# ---- filters and tests with random arguments ----

# Values to which the filters are applied, and the filters' arguments. Earlier entries are drawn more often.
TEXTS = ["s", "w", "u", "q", "empty", "p", "'a-b (cd) [e]f <g>'", "'x' * 90", "'one two-three four--five six-seven-eight nine' * 3", "'12'", "' -4_2 '", "'0x1f'",
         "'3.75'", "'1e3'", "'nan'", "'a=b&c d/é'"]
NUMBERS = ["n", "z", "f", "t", "-n", "-f", "2.5", "3.5", "-2.5", "1234.5678", "25", "1e18", "0.05", "1024", "1000", "999999", "123456789", "none_"]
LISTS = ["l", "names", "el", "[3, 1.5, true]", "['b', 'a', 'B', 'A']", "(1, 2, 3)", "d", "s", "[[2], [1]]", "[none, 1]", "range(7) | list", "x"]
RECORDS = ["people", "[{'name': 'b', 'age': 1, 'n': {'m': 2}}, {'name': 'B', 'age': 1, 'n': {'m': 1}}, {'name': 'a', 'age': 3, 'n': {'m': 1}}]", "el", "[[1, 2], [0, 5]]", "d", "x"]
MAPS = ["d", "{'b': 1, 'A': 3, 'a': 2}", "{}", "{1: 2, 0: 5}", "l", "x"]
ANY = TEXTS + NUMBERS + LISTS + RECORDS + MAPS
SELECTIONS = ["", "'odd'", "'even'", "'equalto', 3", "'in', [1, 3]", "'string'", "'gt', 1", "'lower'", "'defined'", "'divisibleby', 3", "'<=', 2", "'nope_' ~ 1"]
OF_ATTRIBUTE = ["'age'", "'name'", "'name', 'equalto', 'b'", "'age', 'gt', 2", "'n.m', 'odd'", "'missing'", "'missing', 'undefined'", "0", "1, 'eq', 5", ""]
ORDERS = ["", "true", "attribute='name'", "case_sensitive=true", "attribute='age'", "attribute='n.m'", "attribute=0", "attribute='missing'"]
FILTER_ARGUMENTS = {
    "abs": (NUMBERS, [""]), "attr": (TEXTS + MAPS, ["'upper'", "'k'", "'items'", "'missing'", "1"]),
    "batch": (LISTS, ["2", "3, 'x'", "1", "5, 0", "0", "-1", "linecount=2", "2, none"]), "capitalize": (ANY, [""]),
    "center": (TEXTS + NUMBERS, ["", "20", "21", "0", "-5", "width=9"]), "count": (ANY, [""]), "d": (ANY, ["", "'z'", "'z', true", "0, boolean=true"]),
    "default": (ANY, ["", "'z'", "'z', true", "default_value=3"]), "dictsort": (MAPS, ["", "true", "false, 'value'", "by='value', reverse=true", "by='x'"]),
    "filesizeformat": (NUMBERS + TEXTS, ["", "true", "binary=true"]), "first": (LISTS + TEXTS, [""]), "float": (ANY, ["", "1.5", "default=none", "'x'"]),
    "format": (["'%s %s'", "'%05d|%x'", "'%(a)s-%(b)5.2f'", "'%%'", "'%-6s|%+.3e'", "'%c%r'", "'%5'", "n"],
               ["1, 2", "'a', s", "a=s, b=f", "", "n, n", "f, f", "65, q", "1, 2, 3"]),
    "groupby": (RECORDS, ["'name'", "'age'", "'age', default=0", "'name', case_sensitive=true", "'n.m'", "0", "'missing'", ""]),
    "indent": (TEXTS, ["", "2", "2, true", "2, true, true", "'> '", "width=3, blank=true", "first=true", "0"]),
    "int": (ANY, ["", "7", "0, 16", "0, 0", "5, 2", "default=1, base=8", "none"]), "items": (MAPS, [""]),
    "join": (LISTS + RECORDS, ["", "', '", "'-', 'name'", "attribute='age'", "1", "d='+'", "', ', attribute='missing'"]), "last": (LISTS + TEXTS, [""]),
    "length": (ANY, [""]), "list": (LISTS + TEXTS, [""]), "lower": (ANY, [""]),
    "map": (RECORDS + LISTS, ["'string'", "attribute='name'", "attribute='age', default=9", "attribute='n.m'", "'default', 4", "attribute=0", "'upper'", "'join', '-'", "'int'", ""]),
    "max": (LISTS + RECORDS, ORDERS), "min": (LISTS + RECORDS, ORDERS), "pprint": (ANY + ["[d, d, people, s * 3]", "{'long': 'word ' * 30, 'l': range(40) | list}", "'line one\\nline two ' * 5",
                                                                                    "('x' * 50, ['y' * 40, {'k': ['z' * 30, 'z' * 30]}])", "('word ' * 20,)"], [""]),
    "random": (["[1]", "'a'", "el", "empty", "x", "(s,)"], [""]), "reject": (LISTS, SELECTIONS), "rejectattr": (RECORDS, OF_ATTRIBUTE),
    "replace": (TEXTS + NUMBERS, ["'a', 'b'", "'l', '', 1", "'', '-'", "old='o', new='0'", "1, 2", "'a'"]), "reverse": (LISTS + TEXTS, [""]),
    "round": (NUMBERS, ["", "1", "2", "-1", "0, 'ceil'", "1, 'floor'", "-2, 'ceil'", "method='floor'", "1, 'x'", "precision=3"]), "safe": (ANY, [""]),
    "select": (LISTS, SELECTIONS), "selectattr": (RECORDS, OF_ATTRIBUTE), "slice": (LISTS, ["2", "3, 'x'", "1", "5, 0", "0", "slices=2", "4, none"]),
    "sort": (LISTS + RECORDS, ORDERS + ["attribute='age,name'", "true, true", "reverse=true, attribute='name'"]), "string": (ANY, [""]),
    "sum": (LISTS + RECORDS, ["", "attribute='age'", "start=5", "'n.m'", "start=[]", "attribute=0, start=1.5"]), "title": (ANY, [""]),
    "tojson": (ANY, ["", "indent=2", "ensure_ascii=true", "sort_keys=true", "separators=(',', ':')", "indent=1, separators=(',', '=')", "indent='\\t', sort_keys=true", "true", "indent=0"]),
    "trim": (TEXTS + NUMBERS, ["", "'xHd'", "chars=' a'", "none"]), "truncate": (TEXTS, ["", "5", "5, true", "9, false, '..'", "10, true, leeway=0", "5, end=''", "2", "8, leeway=0"]),
    "unique": (LISTS + RECORDS, ORDERS), "upper": (ANY, [""]), "urlencode": (ANY + ["{'a b': 'c/d', 'é': 1}", "[('a', 'b'), ('c', ' ')]"], [""]),
    "wordcount": (TEXTS + NUMBERS, [""]), "wordwrap": (TEXTS, ["", "10", "5", "8, false", "10, true, '|'", "7, break_on_hyphens=false", "width=12, wrapstring=none", "1", "0"])}
# Filters that return iterators. random_filter() appends another filter, since Jinja prints an iterator as an address.
LAZY = {"batch", "slice", "map", "select", "reject", "selectattr", "rejectattr", "unique", "reverse", "items"}
COMPARISONS = ["1", "3", "'a'", "s", "l", "none", "2.5", "n", "[1, 2]", ""]
TEST_ARGUMENTS = {"divisibleby": ["1", "7", "2.5", "0", "'a'", ""], "in": ["l", "s", "d", "[7, 'a']", "range(9)", "5"], "sameas": ["n", "none", "true", "1", "false"]}


def random_filter(rng, name):
    values, arguments = FILTER_ARGUMENTS[name]
    applied = f"({rng.choice(values)}) | {name}({rng.choice(arguments)})"
    if name == "attr":  # the result can be a method, which would print as an address
        applied = f"({applied}) is callable"
    if name in LAZY:
        applied += rng.choice([" | list", " | list | first", " | join(',')", " | list | last"])
    return "{% set p = 'two words, and\nlines\n\nof them' %}{{ " + applied + " }}"


def random_test(rng, name, comparing):
    arguments = TEST_ARGUMENTS.get(name, COMPARISONS if comparing else [""])
    argument = rng.choice(arguments)
    if not name.isidentifier():  # an operator such as "<" can only be named in select()
        return "{{ (" + rng.choice(LISTS) + f") | select('{name}', {argument or 1}) | list }}}}"
    values = TEXTS + ["'odd'", "'first'", "'nope'"] if name in ("filter", "test") else ANY
    return "{{ (" + rng.choice(values) + f") is {rng.choice(['', 'not '])}{name}({argument}) }}}}"


# ---- random templates ----

ATOMS = ["s", "empty", "w", "u", "q", "n", "z", "f", "t", "o", "none_", "l", "names", "el", "d", "people", "x", "1", "0", "2", "'a'", "'o'", "''", "' '", "none", "true",
         "[1, 2]", "(1, 2)", "{'k': 1}", "'b\\n c'", "-1", "f", "d.k", "d.n.m", "l[0]", "people[0].name", "i", "loop.index", "loop.last"]
FILTERS = ["first", "last", "sort", "reverse | list", "unique | list", "int", "float", "sum", "title", "max", "round(1)", "wordcount", "trim", "upper", "lower", "capitalize", "length", "list", "join", "join(', ')", "default('z')", "default('z', true)", "string", "tojson", "items | list",
           "dictsort", "replace('a', 'xy')", "map('upper') | list", "reject('equalto', 'a') | list", "selectattr('age') | list", "selectattr('name', 'string') | list"]
METHODS = ["upper()", "title()", "splitlines()", "count('l')", "find('o')", "rsplit(' ', 1)", "strip()", "lstrip()", "rstrip('d')", "split()", "split('o')", "split(' ', 1)", "startswith('H')", "endswith(s)", "replace('l', 'L')", "items() | list",
           "get('k')", "capitalize()"]
TESTS = ["odd", "number", "integer", "float", "callable", "lower", "defined", "undefined", "none", "string", "boolean", "true", "false", "mapping", "iterable", "sequence"]
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]


def random_expression(rng, depth):
    if depth == 0:
        return rng.choice(ATOMS)
    inner = lambda: random_expression(rng, depth - 1)
    kind = rng.randrange(11)
    if kind < 3:
        return f"{inner()} {rng.choice(BINARY)} {inner()}"
    if kind < 5:
        return f"{rng.choice([inner(), '(' + inner() + ')'])} | {rng.choice(FILTERS)}"
    if kind == 5:
        return f"({inner()}).{rng.choice(METHODS)}"
    if kind == 6:
        return f"{inner()} is {rng.choice(['', 'not '])}{rng.choice(TESTS)}"
    if kind == 7:
        return f"({inner()} if {inner()} else {inner()})"
    if kind == 8:
        return f"({inner()})[{rng.choice(['0', '-1', 'n', repr('k')])}]"
    if kind == 9:
        return rng.choice([f"not {inner()}", rng.choice(["s", "l", "w", "names", "x"]) + rng.choice(["[1:]", "[:2]", "[::-1]", "[1:-1:2]"])])
    return f"[{inner()}, {inner()}]"


def random_blocks(rng, depth):
    text = ""
    for _ in range(rng.randrange(1, 4)):
        text += rng.choice(["", "a", "\n", " ", "  \n", "\n  ", " b ", "\t"])
        begin, end = rng.choice(["{%", "{%-", "{%", "{%+"]), rng.choice(["%}", "-%}", "%}", "+%}"])
        tag = lambda body: f"{rng.choice([begin, '{%', '{%-'])} {body} {rng.choice([end, '%}', '-%}'])}"
        expression = lambda: random_expression(rng, rng.randrange(0, 3))
        kind = rng.randrange(8) if depth > 0 else rng.randrange(3)
        if kind < 2:
            text += f"{rng.choice(['{{', '{{-'])} {expression()} {rng.choice(['}}', '-}}'])}"
        elif kind == 2:
            text += tag(f"set {rng.choice('xyi')} = {expression()}")
        elif kind == 3:
            text += tag(f"if {expression()}") + random_blocks(rng, depth - 1)
            if rng.random() < 0.5:
                text += tag("else") + random_blocks(rng, depth - 1)
            text += tag("endif")
        elif kind == 4:
            sequence = rng.choice(["l", "names", "people", "range(3)", "s[:3]", "d", "el", expression()])
            condition = rng.choice(["", "", " if i", " if " + expression()])
            body = random_blocks(rng, depth - 1) + rng.choice(["", "", tag("if i") + tag("break") + tag("endif"), tag("if not i") + tag("continue") + tag("endif")])
            text += tag(f"for i in {sequence}{condition}") + body + tag("endfor")
        elif kind == 5:
            text += tag(f"set {rng.choice('xy')}") + random_blocks(rng, 0) + tag("endset")
        elif kind == 6:
            text += tag("macro m(a, b=2)") + "{{ a }}" + random_blocks(rng, 0) + tag("endmacro") + "{{ m(" + expression() + ") }}"
        else:
            text += rng.choice(["{# c #}", "{#- c -#}", "{# c -#}"])
    return text + rng.choice(["", "", "\n", " "])


def random_template(rng):
    return random_blocks(rng, 2)
