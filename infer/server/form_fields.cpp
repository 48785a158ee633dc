// Parses the constraints on a request's answer (structured output), and the tools that the answer may call.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "infer/server/request_fields.h"

namespace folio::infer::server {
namespace {

using FormKind = forms::FormOptions::Kind;
// A request field that constrains the answer, the equivalent member of structured_outputs, and the constraint's kind.
struct FormField {
  std::string_view field;
  std::string_view part;
  FormKind kind;
};
constexpr std::array kForms{
    FormField{"guided_json", "json", FormKind::JsonSchema}, FormField{"guided_regex", "regex", FormKind::Regex},
    FormField{"guided_choice", "choice", FormKind::Choice}, FormField{"guided_grammar", "grammar", FormKind::Grammar},
    FormField{"json_schema", "", FormKind::JsonSchema},     FormField{"grammar", "", FormKind::Grammar}};

// A constraint on the answer, and the request field that specifies it. options.kind is None if no field does.
struct RequestedForm {
  std::string field{};
  std::string place{};  ///< path of the constraint, such as structured_outputs.json
  forms::FormOptions options{};
};

// Returns the constraint in `value`, which is at path `field` (such as structured_outputs.json) of the body `ordered`.
RequestedForm form_of(const std::string& field, FormKind kind, const Json& value, const Ordered& ordered) {
  RequestedForm form{.place = field, .options = {.kind = kind}};
  if (kind == FormKind::Choice) {
    if (!value.is_array() || !std::ranges::all_of(value, &Json::is_string)) refuse_type(field, "a list of strings");
    form.options.choices = value.get<std::vector<std::string>>();
  } else if (kind == FormKind::JsonSchema && (value.is_object() || value.is_boolean())) {
    std::string pointer = "/" + field;
    std::ranges::replace(pointer, '.', '/');
    form.options.text = ordered.at(Ordered::json_pointer(pointer)).dump();
  } else if (value.is_string()) {
    form.options.text = value.get<std::string>();
  } else {
    refuse_type(field, kind == FormKind::JsonSchema ? "a JSON schema" : "a string");
  }
  return form;
}

RequestedForm response_format(const Fields& fields, const Ordered& ordered) {
  const std::string* type = fields.text("type");
  const bool has_schema = fields.find("json_schema") != nullptr;
  if (type != nullptr && *type == "text" && !has_schema) return {};
  if (type != nullptr && *type == "json_object" && !has_schema) return {.options = {.kind = FormKind::JsonObject}};
  if (type == nullptr || *type != "json_schema")
    refuse("response_format", "must have the type \"text\", \"json_object\", or \"json_schema\" with a json_schema");
  if (!has_schema) refuse("response_format.json_schema", "is missing");
  const Fields inner = fields.inside("json_schema");
  static_cast<void>(inner.text("name"));
  static_cast<void>(inner.text("description"));
  static_cast<void>(inner.flag("strict"));  // no effect: the schema is always enforced
  if (inner.find("schema") == nullptr) refuse("response_format.json_schema.schema", "is missing");
  return form_of("response_format.json_schema.schema", FormKind::JsonSchema, *inner.find("schema"), ordered);
}

RequestedForm structured_outputs(const Fields& fields, const Ordered& ordered) {
  RequestedForm form{.options = {.kind = FormKind::JsonObject}};
  int n = fields.find("json_object") != nullptr && fields.flag("json_object") ? 1 : 0;
  for (const auto& [field, part, kind] : kForms) {
    const std::string name(part);
    if (name.empty() || fields.find(name) == nullptr) continue;
    form = form_of("structured_outputs." + name, kind, *fields.find(name), ordered);
    ++n;
  }
  if (n != 1) refuse("structured_outputs", "must have exactly one of json, regex, choice, grammar and json_object");
  if (!fields.flag("disable_any_whitespace")) form.options.spaces = forms::JsonSpaces::Anywhere;
  return form;
}

void check_name(const std::string& name) {
  if (!name.empty() && name.size() <= 64 && name.find_first_not_of(data::kToolNameLetters) == std::string::npos) return;
  refuse("tools", "has a function {}; a name must be 1 to 64 letters, digits, _, - and .", core::printable(name, 80));
}

// Returns the schema of a function's arguments, restricted to objects.
Ordered objects_of(Ordered schema, const std::string& function) {
  const Ordered type = schema.value("type", Ordered("object"));
  const bool fits = type.is_array() ? std::ranges::find(type, "object") != type.end() : type == "object";
  if (!fits) refuse("tools", "has a function {} whose parameters are not of type object", function);
  if (schema.contains("$ref") && !schema.contains("allOf")) {  // some drafts of JSON Schema ignore "type" next to $ref
    schema["allOf"] = Ordered::array({Ordered{{"$ref", schema["$ref"]}}});
    schema.erase("$ref");
  }
  schema["type"] = "object";
  schema.erase("nullable");  // of OpenAPI 3.0; it would allow null
  return schema;
}

forms::CallsForm::Function function_of(const Json& tool, const Ordered& ordered, const Json& schema) {
  const Fields fields(tool, schema, {}, "tools");
  const std::string* type = fields.text("type");
  if (type == nullptr || *type != "function" || fields.find("function") == nullptr)
    refuse("tools", "must be a list of {{\"type\": \"function\", \"function\": {{…}}}}");
  const Fields inner = fields.inside("function");
  const std::string* name = inner.text("name");
  static_cast<void>(inner.text("description"));
  static_cast<void>(inner.flag("strict"));
  if (name == nullptr) refuse("tools", "has a function without a name");
  check_name(*name);
  const Json* parameters = inner.find("parameters");
  if (parameters == nullptr) return {.name = *name, .parameters = R"({"type":"object"})"};
  if (!parameters->is_object()) refuse_type("tools", "functions whose parameters are a JSON schema");
  return {.name = *name, .parameters = objects_of(ordered["function"]["parameters"], *name).dump()};
}

// Applies tool_choice: keeps only the functions that it allows.
void choose(const Fields& fields, RequestedTools& asked) {
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr || *choice == "auto") return;
  if (*choice == "none") {
    asked = {};
  } else if (*choice == "required") {
    asked.calls.has_answer = false;
  } else if (choice->is_object()) {
    static const Json::json_pointer kName("/function/name");
    if (choice->value("type", Json()) != "function" || !choice->contains(kName) || !choice->at(kName).is_string())
      refuse("tool_choice", "must name a function as {{\"type\": \"function\", \"function\": {{\"name\": …}}}}");
    const std::string name = choice->at(kName);
    std::erase_if(asked.calls.functions, [&](const auto& f) { return f.name != name; });
    if (asked.calls.functions.empty())
      refuse("tool_choice", "names the function {}, which is not in 'tools'", core::printable(name, 80));
    asked.calls.has_answer = false;
    asked.is_named = true;
    asked.calls.several = false;
  } else {
    refuse("tool_choice", "must be \"none\", \"auto\", \"required\" or a function");
  }
}

// Returns the constraint that the fields request, if any. Throws ApiError if two fields request one.
RequestedForm requested_form(const Fields& fields, const Ordered& ordered) {
  RequestedForm asked;
  const auto ask = [&](const std::string& name, const auto& form_in) {
    if (fields.find(name) == nullptr) return;
    RequestedForm found = form_in();
    if (found.options.kind == FormKind::None) return;
    if (!asked.field.empty()) refuse(name, "constrains the answer, and so does '{}'; remove one of them", asked.field);
    asked = std::move(found);
    asked.field = name;
    if (asked.place.empty()) asked.place = name;
  };
  ask("response_format", [&] { return response_format(fields.inside("response_format"), ordered); });
  ask("structured_outputs", [&] { return structured_outputs(fields.inside("structured_outputs"), ordered); });
  for (const auto& [field, part, kind] : kForms) {
    const std::string name(field);
    ask(name, [&] { return form_of(name, kind, *fields.find(name), ordered); });
  }
  return asked;
}

}  // namespace

Ordered body_with_key_order(const Fields& fields, std::string_view text, const core::WorkBudget& budget) {
  const auto is_there = [&](std::string_view name) { return fields.find(std::string(name)) != nullptr; };
  constexpr std::array<std::string_view, 4> kOthers{"chat_template_kwargs", "response_format", "structured_outputs",
                                                    "tools"};
  const bool needed =
      std::ranges::any_of(kOthers, is_there) || std::ranges::any_of(kForms, is_there, &FormField::field);
  return needed ? in_order(fields.json(), text, budget) : Ordered::object();
}

RequestedTools requested_tools(const Fields& fields, const Ordered& ordered) {
  constexpr size_t kMost = 128;
  RequestedTools asked;
  asked.calls.several = fields.flag("parallel_tool_calls");
  const Json* tools = fields.find("tools");
  if (tools == nullptr || (tools->is_array() && tools->empty())) {
    const Json* choice = fields.find("tool_choice");
    if (choice != nullptr && *choice != "none" && *choice != "auto") refuse("tool_choice", "requires 'tools'");
    return asked;
  }
  if (!tools->is_array()) refuse_type("tools", "a list of functions");
  if (tools->size() > kMost) refuse("tools", "has {} functions, but at most {} are allowed", tools->size(), kMost);
  for (size_t i = 0; i < tools->size(); ++i) {
    asked.calls.functions.push_back(function_of((*tools)[i], ordered["tools"][i], fields.schema("tools")["items"]));
    asked.calls.functions.back().place = fmt::format("[{}].function.parameters", i);
    for (size_t j = 0; j < i; ++j) {
      if (asked.calls.functions[i].name == asked.calls.functions[j].name)
        refuse("tools", "has two functions {}", asked.calls.functions[i].name);
    }
  }
  asked.list = ordered["tools"].dump();
  choose(fields, asked);
  return asked;
}

void take_form(const Fields& fields, const Ordered& ordered, const RequestedTools& tools,
               std::shared_ptr<CallWriting> writing, const ServedModel& served, const core::WorkBudget& budget,
               CompletionRequest& request) {
  RequestedForm answer = requested_form(fields, ordered);
  const bool has_tools = !tools.calls.functions.empty();
  if (!has_tools) answer.options.thinking = request.thinking;
  // With tools, this form is not used: compiling it makes errors name its field instead of 'tools'.
  if (answer.options.kind != FormKind::None) {
    request.options.form =
        made_for(answer.field, answer.place, budget, [&] { return served.forms->form(answer.options, budget); });
  }
  if (!has_tools) return;
  const auto calls = std::make_shared<forms::CallsForm>(tools.calls);
  calls->format = writing->format;
  if (calls->has_answer) calls->answer = answer.options;
  const forms::FormOptions options{
      .kind = forms::FormOptions::Kind::Calls, .calls = calls, .thinking = request.thinking};
  request.options.form = made_for("tools", "tools", budget, [&] { return writing->forms.form(options, budget); });
  request.tools = std::make_shared<ToolUse>(ToolUse{.writing = std::move(writing),
                                                    .has_answer = calls->has_answer,
                                                    .at_start = calls->answer.kind != FormKind::None,
                                                    .is_named = tools.is_named,
                                                    .most_calls = served.max_tool_calls});
}

}  // namespace folio::infer::server
