// Built-in chat templates, which many models share.
#include <array>
#include <filesystem>

#include "core/error.h"
#include "core/file_io.h"
#include "data/chat/chat_template.h"

namespace folio::data {
namespace {

constexpr size_t kMaxFile = size_t{1} << 20U;

struct Named {
  const char* name;
  const char* jinja;
};

constexpr std::array<Named, 5> kTemplates{{
    {"chatml", R"({% for message in messages %}
{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}
{%- endfor %}
{% if add_generation_prompt %}
{{ '<|im_start|>assistant\n' }}
{%- endif %})"},

    {"gemma", R"({{ bos_token }}
{%- set system = messages[0]['content'] + '\n\n' if messages[0]['role'] == 'system' else '' %}
{% for message in (messages[1:] if system else messages) %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
{% endif %}
{{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else message['role']) + '\n' }}
{{- (system if loop.first else '') + message['content'] | trim + '<end_of_turn>\n' }}
{%- endfor %}
{% if add_generation_prompt %}
{{ '<start_of_turn>model\n' }}
{%- endif %})"},

    {"llama2", R"({% set system = messages[0]['role'] == 'system' %}
{% for message in (messages[1:] if system else messages) %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
{% endif %}
{% set content = message['content'] %}
{% if system and loop.first %}
{% set content = '<<SYS>>\n' + messages[0]['content'] + '\n<</SYS>>\n\n' + content %}
{% endif %}
{% if message['role'] == 'user' %}
{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}
{%- elif message['role'] == 'assistant' %}
{{ ' ' + content.strip() + ' ' + eos_token }}
{%- endif %}
{% endfor %})"},

    {"llama3", R"({{ bos_token }}
{%- for message in messages %}
{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{% if add_generation_prompt %}
{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %})"},

    {"zephyr", R"({% for message in messages %}
{{ '<|' + message['role'] + '|>\n' + message['content'] + eos_token + '\n' }}
{%- endfor %}
{% if add_generation_prompt %}
{{ '<|assistant|>\n' }}
{%- endif %})"},
}};

}  // namespace

const std::vector<std::string>& chat_template_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Named& named : kTemplates) all.emplace_back(named.name);
    return all;
  }();
  return names;
}

ChatTemplate chat_template_named(const std::string& name_or_file, const Tokenizer* model) {
  if (model != nullptr) {
    const auto own = model->chat_templates().find(name_or_file);
    if (own != model->chat_templates().end()) return {own->second, name_or_file};
  }
  for (const Named& named : kTemplates) {
    if (name_or_file == named.name) return {named.jinja, name_or_file};
  }
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(name_or_file, ignored)) {
    throw core::UsageError(fmt::format("{} is neither a chat template nor a file; available: {}",
                                       core::printable(name_or_file), fmt::join(chat_template_names(), ", ")));
  }
  return {core::read_text_file(name_or_file, kMaxFile), name_or_file};
}

std::optional<ChatTemplate> find_chat_template(const Tokenizer& model, const std::string& where,
                                               const std::string& name_or_file) {
  if (!name_or_file.empty()) return chat_template_named(name_or_file, &model);
  if (model.chat_template().empty()) return std::nullopt;
  return chat_template_of(model, where);
}

}  // namespace folio::data
