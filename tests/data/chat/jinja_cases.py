"""Templates for which Folio's Jinja is compared with jinja2: written by hand, and at random."""

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
""".strip()


def split_expressions(text):
    """At each " | " that is not a filter: a filter's name has no blank in front but a value's pipe, so try the parser."""
    import jinja2.parser
    environment = jinja2.Environment()
    parts = []
    for line in text.replace("\\\n", "\0").split("\n"):
        pieces = [piece.replace("\0", "\\\n") for piece in line.split(" | ")]
        current = pieces[0]
        for piece in pieces[1:]:
            name = piece.split("(")[0].split(" ")[0].split(")")[0].split("[")[0]
            brackets = sum(current.count(c) for c in "([{") - sum(current.count(c) for c in ")]}")
            is_filter = piece.startswith("d(") if name == "d" else name in environment.filters  # d is also a variable
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
    "{% set x = x | default('d') %}{{ x }}", "{{ 'x' is string if t else 1 }}" if False else "{{ 1, 2 }}",
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

# What jinja2 knows and no published template uses: refused, in words that name it.
GONE = {"n | abs": "abs", "l | first": "first", "l | last": "last", "'4' | int": "int", "l | sort": "sort", "l | reverse": "reverse", "l | select": "select",
        "people | rejectattr('age')": "rejectattr", "people | map(attribute='name')": "map", "s | title": "title", "s | indent": "indent", "l | count": "count",
        "n is odd": "odd", "n is number": "number", "n is divisibleby 2": "divisibleby", "range is callable": "callable", "n is in l": "in", "dict(a=1)": "dict",
        "s.upper()": "upper", "s.splitlines()": "splitlines", "s.find('o')": "find", "', '.join(names)": "join", "d.keys()": "keys", "d.values()": "values",
        "n * 2": "'*'", "n / 2": "'/'", "n // 2": "'//'", "n ** 2": "'**'", "1.5": "floats", "d | tojson(sort_keys=true)": "sort_keys", "+n": "'+'",
        "namespace({'a': 1})": "namespace"}
GONE_BLOCKS = {"{% for i in l %}{% else %}{% endfor %}": "else", "{% for i in l %}{{ loop.length }}{% endfor %}": "loop.length",
               "{% for i in l %}{{ loop.cycle(1) }}{% endfor %}": "loop.cycle", "{% raw %}{% endraw %}": "raw", "{% filter upper %}{% endfilter %}": "filter",
               "{% with a = 1 %}{% endwith %}": "with", "{% call s() %}{% endcall %}": "call", "{% print n %}": "print", "{% set a | upper %}{% endset %}": "'|'"}

KEEPS = {  # and what of "  One, <b>two</b>  " is left as said
    "{{ x }}": "  One, <b>two</b>  ", "{{ x | trim }}": "One, <b>two</b>", "{{ x.strip() + '</b>' }}": "One, <b>two</b>", "{{ x[2:5] ~ 'One' }}": "One",
    "{{ x.split(', ')[1] }}": "<b>two</b>  ", "{{ x | upper }}": "  ONE, <B>TWO</B>  ", "{{ x | replace('<b>', '<i>') }}": "  One, two</b>  ",
    "{{ 'a' | replace('a', x) }}": "  One, <b>two</b>  ", "{{ [x, x] | join('<b>') }}": "  One, <b>two</b>    One, <b>two</b>  ",
    "{{ x | tojson }}": "  One, <b>two</b>  ", "{{ [x] }}": "  One, <b>two</b>  ", "{{ {'k': x}.k }}": "  One, <b>two</b>  ",
    "{% set y %}<b>{{ x }}{% endset %}{{ y }}": "  One, <b>two</b>  ", "{% macro m(a) %}<b>{{ a }}{% endmacro %}{{ m(x) }}": "  One, <b>two</b>  ",
    "{% for c in x %}{{ c }}{% endfor %}": "  One, <b>two</b>  ", "{{ x | list | join }}": "  One, <b>two</b>  ", 
    "{% set ns = namespace(a=x) %}{{ ns.a }}": "  One, <b>two</b>  ", "{{ x[::-1] }}": "  >b/<owt>b< ,enO  ",
    "{{ '<b>' if '<b>' in x }}": "", "{{ x | length }}": "",
    "{{ x | string }}": "  One, <b>two</b>  ", "{{ ([x] | map('trim') | list)[0] }}": "One, <b>two</b>"}

# A million letters, by a loop that is allowed.
LONG = "{% set ns = namespace(a='aaaaaaaaaa') %}{% for i in range(17) %}{% set ns.a = ns.a + ns.a %}{% endfor %}"

HOSTILE = [
    "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
    "{% set ns = namespace(a='aaaaaaaaaa') %}{% for i in range(100) %}{% set ns.a = ns.a + ns.a %}{% endfor %}", "{{ range(1000000000) }}",
    "{% set ns = namespace(a=[]) %}{% for i in range(100000) %}{% set ns.a = [ns.a] %}{% endfor %}",
    "{% set ns = namespace(a=[]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a }}",
    "{% set ns = namespace(a=[]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a == ns.a }}",
    "{% set ns = namespace(a=[]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a | tojson }}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "{{ " + "1 + " * 5000 + "1 }}", "{{ " + "not " * 5000 + "1 }}",
    "{{ " + "-" * 5000 + "1 }}", "{{ a" + ".b" * 5000 + " }}", "{{ a" + "|trim" * 5000 + " }}", "{% if 1 %}" * 5000, "{{ " + "[" * 5000, "{{ 9223372036854775807 + 1 }}",
    "{{ 99999999999999999999 }}", "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns.a.a.b.c }}",
    "{% for i in range(100000) %}{{ messages[0].content + messages[0].content }}{% endfor %}", LONG + "{{ raise_exception(ns.a ~ '\\n\\x01') }}",
    LONG + "{{ ns.a.replace('a', ns.a) }}", LONG + "{{ ns.a.split('a') | join(ns.a) }}",
    LONG + "{% for i in range(10000) %}{% set q = (ns.a + 'b') in ns.a %}{% endfor %}", "{{ " + "1 if " * 5000, "{{ x" + "x" * 100000 + ".y }}", "\x01{{", "{{ 'a' ~ }}"]


# ---- at random ----

ATOMS = ["s", "empty", "w", "u", "q", "n", "z", "f", "t", "o", "none_", "l", "names", "el", "d", "people", "x", "1", "0", "2", "'a'", "'o'", "''", "' '", "none", "true",
         "[1, 2]", "(1, 2)", "{'k': 1}", "'b\\n c'", "-1", "f", "d.k", "d.n.m", "l[0]", "people[0].name", "i", "loop.index", "loop.last"]
FILTERS = ["trim", "upper", "lower", "capitalize", "length", "list", "join", "join(', ')", "default('z')", "default('z', true)", "string", "tojson", "items | list",
           "dictsort", "replace('a', 'xy')", "map('upper') | list", "reject('equalto', 'a') | list", "selectattr('age') | list", "selectattr('name', 'string') | list"]
METHODS = ["strip()", "lstrip()", "rstrip('d')", "split()", "split('o')", "split(' ', 1)", "startswith('H')", "endswith(s)", "replace('l', 'L')", "items() | list",
           "get('k')", "capitalize()"]
TESTS = ["defined", "undefined", "none", "string", "boolean", "true", "false", "mapping", "iterable", "sequence"]
BINARY = ["+", "-", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]


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
