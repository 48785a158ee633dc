"""Chat templates as models publish them, the input of Jinja: each family that Folio renders, and some that look alike.

Written as their models' tokenizer_config.json has them (Llama 3.1's without the branches for tools).
"""

SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nYou are"
    " a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\\n' }}{% endif %}{{'<|im_start|>' +"
    " message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{"
    " '<|im_start|>assistant\\n' }}{% endif %}")

CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' +"
    " '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")

# With a BOS, a double-quoted default and escapes in it.
CHATML_BOS = (
    "{{ bos_token }}{% if messages[0]['role'] != 'system' %}{{ \"<|im_start|>system\\nIt's \\\"you\\\" \\\\n.\\n\\tBe"
    " kind.<|im_end|>\\n\" }}{% endif %}{% for message in messages %}{{ '<|im_start|>' ~ message.role ~ '\\n' ~"
    " message.content ~ '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%"
    " endif %}")

# As plain text, not as literals.
CHATML_PLAIN = """{% if messages[0]['role'] != 'system' %}<|im_start|>system
Be brief.<|im_end|>
{% endif %}
{% for message in messages %}
<|im_start|>{{ message['role'] }}
{{ message['content'] }}<|im_end|>
{% endfor %}
{% if add_generation_prompt %}
<|im_start|>assistant
{% endif %}"""

LLAMA2 = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message ="
    " messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{%"
    " for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{"
    " raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if"
    " loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n'"
    " + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user'"
    " %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  +"
    " content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}")

LLAMA3 = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' +"
    " message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0"
    " %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{"
    " '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}")

LLAMA31 = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- This block extracts the system message, so we can slot it into the right place. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}

{#- System message + builtin tools #}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if builtin_tools is defined or tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}

{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

# A fine-tune's: a default system message, contents as they are.
LLAMA3_DEFAULT = (
    "{{ bos_token }}{% if messages[0]['role'] != 'system' %}{{ '<|start_header_id|>system<|end_header_id|>\\n\\nBe"
    " kind.<|eot_id|>' }}{% endif %}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] +"
    " '<|end_header_id|>\\n\\n' + message['content'] + '<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}{{"
    " '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}")

ZEPHYR = (
    "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\\n' + message['content'] +"
    " eos_token }}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\\n' + message['content'] + eos_token }}\n{%"
    " elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\\n'  + message['content'] + eos_token }}\n{% endif %}\n{%"
    " if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}")

GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif"
    " %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{"
    " raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if"
    " (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif"
    " %}{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}{% if"
    " add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}")

GEMMA3 = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '

' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
"""

KNOWN = {
    "SmolLM2": ("chatml", SMOLLM2), "ChatML": ("chatml", CHATML), "ChatML with BOS": ("chatml", CHATML_BOS),
    "ChatML as plain text": ("chatml", CHATML_PLAIN), "Llama 2": ("llama2", LLAMA2), "Llama 3": ("llama3", LLAMA3),
    "Llama 3.1": ("llama3", LLAMA31), "Llama 3 with a default": ("llama3", LLAMA3_DEFAULT),
    "Zephyr": ("zephyr", ZEPHYR), "Gemma": ("gemma", GEMMA), "Gemma 3": ("gemma", GEMMA3)}

# What others join in another way, with some of the same marks: the essential line of each.
LOOK_ALIKES = {
    "Phi-3": "{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\\n' + message['content'] +"
             " '<|end|>\\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\\n' + message['content'] + '<|end|>\\n'}}{%"
             " else %}{{'<|assistant|>\\n' + message['content'] + '<|end|>\\n'}}{% endif %}{% endfor %}{{"
             " '<|assistant|>\\n' }}",
    "Phi-4": "{% for message in messages %}{{'<|im_start|>' + message['role'] + '<|im_sep|>' + message['content'] +"
             " '<|im_end|>'}}{% endfor %}{{ '<|im_start|>assistant<|im_sep|>' }}",
    "Falcon 3": "{% for message in messages %}{% if message['role'] == 'system' %}{{ '<|system|>\\n' +"
                " message['content'] + '\\n' }}{% elif message['role'] == 'user' %}{{ '<|user|>\\n' + message['content'] +"
                " '\\n' }}{% else %}{{ '<|assistant|>\\n' + message['content'] + eos_token + '\\n' }}{% endif %}{% endfor"
                " %}{{ '<|assistant|>\\n' }}",
    "Mistral": "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' +"
               " message['content'] + ' [/INST]' }}{% else %}{{ message['content'] + eos_token}}{% endif %}{% endfor %}",
    "Mistral v7": "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' +"
                  " message['content'] + '[/INST]' }}{% elif message['role'] == 'system' %}{{ '[SYSTEM_PROMPT] ' +"
                  " message['content'] + '[/SYSTEM_PROMPT]' }}{% else %}{{ ' ' + message['content'] + eos_token }}{%"
                  " endif %}{% endfor %}",
    "Llama 2, system message at each turn": LLAMA2.replace("loop.index0 == 0 and ", "").replace("bos_token + ", ""),
    "Qwen 3": CHATML.replace("{% for message in messages %}", "{% for message in messages %}{% set content ="
                             " message.content.split('</think>')[-1].lstrip('\\n') %}"),
    "ChatML with trimmed contents": CHATML.replace("message['content']", "message['content'] | trim"),
    "ChatML without line ends": CHATML.replace("'<|im_end|>' + '\\n'", "'<|im_end|>'"),
    "ChatML with empty lines": CHATML_PLAIN.replace("<|im_end|>\n{% endfor", "<|im_end|>\n\n{% endfor"),
    "ChatML with an empty line before the answer": CHATML_PLAIN.replace("assistant\n", "assistant\n\n"),
    "Zephyr without line ends": ZEPHYR.replace("eos_token }}\n", "eos_token }}"),
    "ChatML with another role": CHATML.replace("<|im_start|>assistant", "<|im_start|>model"),
    "ChatML with a default set elsewhere": "{% set s = 'You are a cat.' %}" + CHATML,
    "DeepSeek": "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ '<｜User｜>' +"
                " message['content'] }}{% else %}{{ '<｜Assistant｜>' + message['content'] + '<｜end▁of▁sentence｜>' }}{%"
                " endif %}{% endfor %}{{ '<｜Assistant｜>' }}",
    "Command-R": "{{ bos_token }}{% for message in messages %}{{ '<|START_OF_TURN_TOKEN|><|USER_TOKEN|>' +"
                 " message['content'] + '<|END_OF_TURN_TOKEN|>' }}{% endfor %}",
    "Llama 4": LLAMA3.replace("start_header_id", "header_start").replace("end_header_id", "header_end").replace(
        "eot_id", "eot"),
    "Llama 3 that thinks": LLAMA31.replace("Cutting Knowledge Date: December 2023\\n", "detailed thinking off\\n"),
    "Gemma with one line end after the system message": GEMMA3.replace("+ '\n\n'", "+ '\n'"),
    "Gemma that says assistant": GEMMA.replace("'model'", "'assistant'"),
    "GPT-OSS": "{% for message in messages %}{{ '<|start|>' + message['role'] + '<|message|>' + message['content'] +"
               " '<|end|>' }}{% endfor %}{{ '<|start|>assistant' }}",
    "Alpaca": "{% for message in messages %}{{ '### Instruction:\\n' + message['content'] }}{% endfor %}",
    "Vicuna": "{% for message in messages %}{{ 'USER: ' + message['content'] + '\\n' }}{% endfor %}{{ 'ASSISTANT:' }}",
    "not Jinja": "hello", "one mark": "<|im_start|>", "a brace": "\n{", "a long program": CHATML + " " * 40000,
}
