#include "infer/server/form_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"

namespace folio::infer::server {
namespace {

using Kind = forms::FormOptions::Kind;
using Ordered = core::OrderedJson;

constexpr std::array kFields{"response_format", "structured_outputs", "guided_json", "guided_regex",
                             "guided_choice",   "guided_grammar",     "json_schema", "grammar"};

// A schema, or JSON that is one.
AskedForm schema_form(const std::string& field, const Ordered& schema) {
  const bool is_text = schema.is_string();
  if (!is_text && !schema.is_object() && !schema.is_boolean()) refuse_type(field, "a JSON schema");
  return {.place = field,
          .options = {.kind = Kind::JsonSchema, .text = is_text ? schema.get<std::string>() : schema.dump()}};
}

AskedForm text_form(const std::string& field, Kind kind, const Ordered& text) {
  if (!text.is_string()) refuse_type(field, "a text");
  return {.place = field, .options = {.kind = kind, .text = text.get<std::string>()}};
}

AskedForm choice_form(const std::string& field, const Ordered& list) {
  if (!list.is_array()) refuse_type(field, "a list of texts");
  forms::FormOptions form{.kind = Kind::Choice};
  for (const Ordered& text : list) {
    if (!text.is_string()) refuse_type(field, "a list of texts");
    form.choices.push_back(text.get<std::string>());
  }
  return {.place = field, .options = std::move(form)};
}

AskedForm response_format(const Json& value, const Json& schema, const Ordered& ordered) {
  const Fields fields(value, schema, {}, "response_format");
  const std::string* type = fields.text("type");
  const bool has_schema = fields.find("json_schema") != nullptr;
  if (type != nullptr && *type == "text" && !has_schema) return {};
  if (type != nullptr && *type == "json_object" && !has_schema) return {.options = {.kind = Kind::JsonObject}};
  if (type == nullptr || *type != "json_schema") {
    refuse("response_format", "has to have the type \"text\", \"json_object\", or \"json_schema\" with a json_schema");
  }
  if (!has_schema) refuse("response_format.json_schema", "is missing");
  const Fields inner(*fields.find("json_schema"), fields.schema("json_schema"), {}, "response_format.json_schema");
  static_cast<void>(inner.text("name"));
  static_cast<void>(inner.text("description"));
  static_cast<void>(inner.flag("strict"));  // what is not strict is held to the schema, too
  if (inner.find("schema") == nullptr) refuse("response_format.json_schema.schema", "is missing");
  return schema_form("response_format.json_schema.schema", ordered["json_schema"]["schema"]);
}

AskedForm structured_outputs(const Json& value, const Json& schema, const Ordered& ordered) {
  const Fields fields(value, schema, {}, "structured_outputs");
  AskedForm form;
  int n = 0;
  for (const char* name : {"json", "regex", "choice", "grammar", "json_object"}) {
    if (fields.find(name) == nullptr) continue;
    const std::string field = std::string("structured_outputs.") + name;
    const std::string_view kind = name;
    if (kind == "json_object" && !fields.flag(name)) continue;
    ++n;
    form = kind == "json"      ? schema_form(field, ordered[name])
           : kind == "regex"   ? text_form(field, Kind::Regex, ordered[name])
           : kind == "choice"  ? choice_form(field, ordered[name])
           : kind == "grammar" ? text_form(field, Kind::Grammar, ordered[name])
                               : AskedForm{.options = {.kind = Kind::JsonObject}};
  }
  if (n != 1) refuse("structured_outputs", "has to have one of json, regex, choice, grammar and json_object");
  if (!fields.flag("disable_any_whitespace")) form.options.spaces = forms::JsonSpaces::Anywhere;
  return form;
}

AskedForm form_of(const std::string& name, const Fields& fields, const Ordered& ordered) {
  if (name == "response_format") return response_format(*fields.find(name), fields.schema(name), ordered);
  if (name == "structured_outputs") return structured_outputs(*fields.find(name), fields.schema(name), ordered);
  if (name == "guided_json" || name == "json_schema") return schema_form(name, ordered);
  if (name == "guided_regex") return text_form(name, Kind::Regex, ordered);
  if (name == "guided_choice") return choice_form(name, ordered);
  return text_form(name, Kind::Grammar, ordered);
}

void check_name(const std::string& name) {
  if (!name.empty() && name.size() <= 64 && name.find_first_not_of(data::kToolNameLetters) == std::string::npos) return;
  refuse("tools",
         fmt::format("have a function {}; a name has 1 to 64 letters, digits, _, - and .", core::printable(name, 80)));
}

// Arguments are an object, whatever else their schema says.
Ordered objects_of(Ordered schema, const std::string& function) {
  const Ordered type = schema.value("type", Ordered("object"));
  const bool fits = type.is_array() ? std::ranges::find(type, "object") != type.end() : type == "object";
  if (!fits)
    refuse("tools", fmt::format("have a function {} whose parameters are of another type than object", function));
  if (schema.contains("$ref") && !schema.contains("allOf")) {  // old drafts read nothing beside $ref
    schema["allOf"] = Ordered::array({Ordered{{"$ref", schema["$ref"]}}});
    schema.erase("$ref");
  }
  schema["type"] = "object";
  return schema;
}

forms::CallsForm::Function function_of(const Json& tool, const Json& schema, const Ordered& ordered) {
  const Fields fields(tool, schema, {}, "tools");
  const std::string* type = fields.text("type");
  const Json* function = fields.find("function");
  if (type == nullptr || *type != "function" || function == nullptr) {
    refuse("tools", "have to be {\"type\": \"function\", \"function\": {…}}");
  }
  const Fields inner(*function, fields.schema("function"), {}, "tools.function");
  const std::string* name = inner.text("name");
  static_cast<void>(inner.text("description"));
  static_cast<void>(inner.flag("strict"));
  if (name == nullptr) refuse("tools", "have a function without a name");
  check_name(*name);
  if (inner.find("parameters") == nullptr) return {.name = *name, .parameters = R"({"type":"object"})"};
  const Ordered& parameters = ordered["function"]["parameters"];
  if (!parameters.is_object()) refuse_type("tools", "functions whose parameters are a JSON schema");
  return {.name = *name, .parameters = objects_of(parameters, *name).dump()};
}

// Leaves the functions of the choice.
void choose(const Fields& fields, AskedTools& asked) {
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr || *choice == "auto") return;
  if (*choice == "none") {
    asked = {};
  } else if (*choice == "required") {
    asked.has_answer = false;
  } else if (choice->is_object()) {
    const Json* function = choice->contains("function") ? &choice->at("function") : nullptr;
    const std::string* name = nullptr;
    if (function != nullptr && function->is_object() && function->contains("name")) {
      name = function->at("name").get_ptr<const std::string*>();
    }
    if (name == nullptr || choice->value("type", Json()) != "function") {
      refuse("tool_choice", "has to name a function as {\"type\": \"function\", \"function\": {\"name\": …}}");
    }
    std::erase_if(asked.functions, [&](const auto& f) { return f.name != *name; });
    if (asked.functions.empty()) {
      refuse("tool_choice",
             fmt::format("names the function {}, which is none of the tools", core::printable(*name, 80)));
    }
    asked.has_answer = false;
    asked.is_named = true;
    asked.several = false;
  } else {
    refuse("tool_choice", "has to be \"none\", \"auto\", \"required\" or a function");
  }
}

}  // namespace

bool needs_order(const Fields& fields) {
  for (const char* name : kFields) {
    if (fields.find(name) != nullptr) return true;
  }
  return fields.find("tools") != nullptr;
}

AskedForm asked_form(const Fields& fields, const core::OrderedJson& body) {
  AskedForm asked;
  for (const char* name : kFields) {
    if (fields.find(name) == nullptr) continue;
    AskedForm found = form_of(name, fields, body.at(name));
    found.field = name;
    if (found.place.empty()) found.place = name;
    if (found.options.kind == Kind::None) continue;
    if (!asked.field.empty()) {
      refuse(name, fmt::format("says the form of the answer, and so does '{}'; leave one out", asked.field));
    }
    asked = std::move(found);
  }
  return asked;
}

AskedTools asked_tools(const Fields& fields, const core::OrderedJson& body) {
  constexpr size_t kMost = 128;
  AskedTools asked;
  const Json* tools = fields.find("tools");
  if (tools == nullptr || (tools->is_array() && tools->empty())) {
    const Json* choice = fields.find("tool_choice");
    if (choice != nullptr && *choice != "none" && *choice != "auto") refuse("tool_choice", "is for 'tools'");
    return asked;
  }
  if (!tools->is_array()) refuse_type("tools", "a list of functions");
  if (tools->size() > kMost) refuse("tools", fmt::format("are {}, but at most {} are possible", tools->size(), kMost));
  for (size_t i = 0; i < tools->size(); ++i) {
    asked.functions.push_back(function_of((*tools)[i], fields.schema("tools")["items"], body["tools"][i]));
    asked.functions.back().place = fmt::format("[{}].function.parameters", i);
    for (size_t j = 0; j < i; ++j) {
      if (asked.functions[i].name == asked.functions[j].name) {
        refuse("tools", fmt::format("have two functions {}", asked.functions[i].name));
      }
    }
  }
  asked.list = body["tools"].dump();
  const Json* several = fields.find("parallel_tool_calls");
  asked.several = several == nullptr || fields.flag("parallel_tool_calls");
  choose(fields, asked);
  return asked;
}

}  // namespace folio::infer::server
