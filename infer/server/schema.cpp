#include "infer/server/schema.h"

#include <fmt/format.h>

#include <cmath>
#include <type_traits>

#include "core/version.h"
#include "infer/sampling/sampler.h"

namespace folio::infer::server {
namespace {

// What is in no list of numbers. null is as if a field were not there. Source: OpenAI's API reference.
constexpr const char* kSchemas = R"json({
  "Error": {"type": "object", "required": ["error"], "properties": {"error": {
    "type": "object", "required": ["message", "type", "param", "code"], "properties": {
      "message": {"type": "string"}, "type": {"type": "string"},
      "param": {"type": ["string", "null"]}, "code": {"type": ["string", "null"]}}}}},
  "Usage": {"type": "object", "required": ["prompt_tokens", "completion_tokens", "total_tokens"], "properties": {
    "prompt_tokens": {"type": "integer"}, "completion_tokens": {"type": "integer"}, "total_tokens": {"type": "integer"},
    "prompt_tokens_details": {"type": "object", "properties": {"cached_tokens": {"type": "integer"}}}}},
  "Model": {"type": "object", "required": ["id", "object", "created", "owned_by"], "properties": {
    "id": {"type": "string"}, "object": {"const": "model"}, "created": {"type": "integer"}, "owned_by": {"type": "string"},
    "context_length": {"type": "integer"}, "vocab_size": {"type": "integer"}, "chat": {"type": "boolean"},
    "parent": {"type": ["string", "null"], "description": "of an adapter: the model that it adapts"}}},
  "Models": {"type": "object", "required": ["object", "data"], "properties": {
    "object": {"const": "list"}, "data": {"type": "array", "items": {"$ref": "#/components/schemas/Model"}}}},
  "ToolCall": {"type": "object", "required": ["id", "type", "function"], "properties": {
    "id": {"type": "string"}, "type": {"const": "function"},
    "function": {"type": "object", "required": ["name", "arguments"], "properties": {
      "name": {"type": "string"}, "arguments": {"type": "string", "description": "a JSON object"}}}}},
  "Message": {"type": "object", "required": ["role"], "properties": {
    "role": {"enum": ["system", "developer", "user", "assistant", "tool"]},
    "content": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object", "required": ["type", "text"],
      "properties": {"type": {"const": "text"}, "text": {"type": "string"}}}}, {"type": "null"}],
      "description": "null beside tool_calls alone"},
    "name": {"type": ["string", "null"]},
    "reasoning_content": {"type": ["string", "null"], "description": "of an assistant: what it thought before its answer"},
    "reasoning": {"type": ["string", "null"], "description": "the same"},
    "tool_calls": {"type": ["array", "null"], "items": {"$ref": "#/components/schemas/ToolCall"},
      "description": "of an assistant"},
    "tool_call_id": {"type": ["string", "null"], "description": "of a tool: what it answers"}}},
  "Common": {
    "model": {"type": ["string", "null"], "description": "the model's name, as /v1/models says it; may be left out"},
    "logit_bias": {"type": ["object", "null"], "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100},
      "description": "token ids, and what is added to their logits"},
    "seed": {"type": ["integer", "null"],
      "description": "the same seed gives the same answer; by default a random one, which is returned"},
    "n": {"type": ["integer", "null"], "minimum": 1, "maximum": 128, "default": 1,
      "description": "choices of each prompt; at most 128 in all"},
    "best_of": {"type": ["integer", "null"], "minimum": 1, "maximum": 128,
      "description": "as n; with use_beam_search the number of beams, of which n are returned"},
    "use_beam_search": {"type": ["boolean", "null"], "default": false,
      "description": "follow the n (or best_of) most likely texts, and return the best; at most 64"},
    "length_penalty": {"type": ["number", "null"], "minimum": -10, "maximum": 10, "default": 1,
      "description": "of beams: a score is the log-probability over the number of tokens to this power"},
    "early_stopping": {"enum": [true, false, "never", null],
      "description": "of beams: true ends with the first n, \"never\" when no text can become better, false between"},
    "stop": {"anyOf": [{"type": "string", "minLength": 1},
      {"type": "array", "maxItems": 16, "items": {"type": "string", "minLength": 1}}, {"type": "null"}]},
    "stream": {"type": ["boolean", "null"], "default": false},
    "stream_options": {"type": ["object", "null"], "additionalProperties": false, "description": "for \"stream\": true",
      "properties": {"include_usage": {"type": ["boolean", "null"], "default": false}}},
    "response_format": {"type": ["object", "null"], "required": ["type"], "additionalProperties": false,
      "description": "the form of the answer, which can't be other",
      "properties": {"type": {"enum": ["text", "json_object", "json_schema"]},
        "json_schema": {"type": ["object", "null"], "required": ["schema"], "additionalProperties": false, "properties": {
          "name": {"type": ["string", "null"]}, "description": {"type": ["string", "null"]},
          "strict": {"type": ["boolean", "null"], "default": true, "description": "it always is"},
          "schema": {"type": ["object", "boolean"]}}}}},
    "structured_outputs": {"type": ["object", "null"], "additionalProperties": false,
      "description": "the form of the answer, as vLLM's: one of these", "properties": {
        "json": {"type": ["object", "string", "null"]}, "regex": {"type": ["string", "null"]},
        "choice": {"type": ["array", "null"], "minItems": 1, "items": {"type": "string"}},
        "grammar": {"type": ["string", "null"]},
        "json_object": {"type": ["boolean", "null"], "default": false},
        "disable_any_whitespace": {"type": ["boolean", "null"], "default": true,
          "description": "false: JSON may have whitespace wherever it may stand"}}},
    "guided_json": {"type": ["object", "string", "null"], "description": "a JSON schema that the answer fits"},
    "guided_regex": {"type": ["string", "null"], "description": "a regular expression that matches the answer"},
    "guided_choice": {"type": ["array", "null"], "minItems": 1, "items": {"type": "string"},
      "description": "the answer is one of these"},
    "guided_grammar": {"type": ["string", "null"], "description": "a grammar of the answer, in GBNF"},
    "json_schema": {"type": ["object", "string", "null"], "description": "as guided_json"},
    "grammar": {"type": ["string", "null"], "description": "as guided_grammar"},
    "stop_token_ids": {"type": ["array", "null"], "maxItems": 1024, "items": {"type": "integer", "minimum": 0},
      "description": "tokens that end it, and are not part of it"},
    "user": {"type": ["string", "null"]}, "metadata": {"type": ["object", "null"]}, "service_tier": {"type": ["string", "null"]},
    "prompt_cache_key": {"type": ["string", "null"]}, "prompt_cache_retention": {"type": ["string", "null"]},
    "safety_identifier": {"type": ["string", "null"]}, "verbosity": {"type": ["string", "null"]},
    "store": {"enum": [false, null]}},
  "CompletionRequest": {"type": "object", "additionalProperties": false, "properties": {
    "prompt": {"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": {"type": "string"}},
      {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}},
      {"type": "array", "minItems": 1, "items": {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}}},
      {"type": "null"}]},
    "max_tokens": {"type": ["integer", "null"], "minimum": 0, "maximum": 2147483647, "default": 16,
      "description": "0 with \"echo\": true alone"},
    "parse_special": {"type": ["boolean", "null"], "default": true,
      "description": "names of special tokens in a text are these tokens; false: they are text"},
    "add_special_tokens": {"type": ["boolean", "null"], "default": true,
      "description": "BOS comes before a text, where the model expects it and the text does not begin with it"},
    "echo": {"type": ["boolean", "null"], "default": false},
    "logprobs": {"type": ["integer", "null"], "minimum": 0, "maximum": 20}}},
  "ChatRequest": {"type": "object", "required": ["messages"], "additionalProperties": false, "properties": {
    "messages": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/Message"}},
    "max_tokens": {"type": ["integer", "null"], "minimum": 1, "maximum": 2147483647,
      "description": "the most tokens of the answer; by default as many as fit in the context"},
    "max_completion_tokens": {"type": ["integer", "null"], "minimum": 1, "maximum": 2147483647,
      "description": "the same as max_tokens"},
    "logprobs": {"type": ["boolean", "null"], "default": false},
    "top_logprobs": {"type": ["integer", "null"], "minimum": 0, "maximum": 20},
    "tools": {"type": ["array", "null"], "maxItems": 128, "description": "functions that the answer may call",
      "items": {"type": "object", "required": ["type", "function"], "additionalProperties": false, "properties": {
        "type": {"const": "function"},
        "function": {"type": "object", "required": ["name"], "additionalProperties": false, "properties": {
          "name": {"type": "string", "pattern": "^[a-zA-Z0-9_.-]{1,64}$"}, "description": {"type": ["string", "null"]},
          "parameters": {"type": ["object", "null"], "description": "a JSON schema of its arguments"},
          "strict": {"type": ["boolean", "null"], "default": true, "description": "it always is"}}}}}},
    "tool_choice": {"anyOf": [{"enum": ["none", "auto", "required", null]}, {"type": "object",
      "required": ["type", "function"], "properties": {"type": {"const": "function"},
        "function": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}}}]},
    "parallel_tool_calls": {"type": ["boolean", "null"], "default": true,
      "description": "an answer may have several calls, where the model writes several"},
    "chat_template_kwargs": {"type": ["object", "null"], "description": "more variables of the chat template, such as enable_thinking"},
    "reasoning_effort": {"type": ["string", "null"],
      "description": "a variable of the chat template; \"none\" sets enable_thinking to false, too"},
    "include_reasoning": {"type": ["boolean", "null"], "default": true, "description": "in the answer, as reasoning_content"}}},
  "Completion": {"type": "object", "required": ["id", "object", "created", "model", "seed", "choices", "usage"], "properties": {
    "id": {"type": "string"}, "object": {"const": "text_completion"}, "created": {"type": "integer"},
    "model": {"type": "string"}, "seed": {"type": "integer"}, "usage": {"$ref": "#/components/schemas/Usage"},
    "choices": {"type": "array", "items": {"type": "object", "required": ["index", "text", "logprobs", "finish_reason"],
      "properties": {"index": {"type": "integer"}, "text": {"type": "string"}, "logprobs": {"type": ["object", "null"]}, "score": {"type": "number"},
        "finish_reason": {"enum": ["stop", "length"]}, "stop_reason": {"const": "form"}}}}}},
  "ChatCompletion": {"type": "object", "required": ["id", "object", "created", "model", "seed", "choices", "usage"], "properties": {
    "id": {"type": "string"}, "object": {"const": "chat.completion"}, "created": {"type": "integer"},
    "model": {"type": "string"}, "seed": {"type": "integer"}, "usage": {"$ref": "#/components/schemas/Usage"},
    "choices": {"type": "array", "items": {"type": "object", "required": ["index", "message", "logprobs", "finish_reason"],
      "properties": {"index": {"type": "integer"}, "logprobs": {"type": ["object", "null"]}, "score": {"type": "number"},
        "finish_reason": {"enum": ["stop", "length", "tool_calls"]}, "stop_reason": {"const": "form"},
        "message": {"type": "object", "required": ["role", "content"], "properties": {
          "role": {"const": "assistant"}, "content": {"type": ["string", "null"]}, "refusal": {"type": "null"},
          "reasoning_content": {"type": "string"}, "reasoning": {"type": "string"},
          "tool_calls": {"type": "array", "items": {"$ref": "#/components/schemas/ToolCall"}}}}}}}}},
  "ResponseRequest": {"type": "object", "required": ["input"], "additionalProperties": false, "properties": {
    "input": {"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": {"type": "object"}}],
      "description": "a text of the user, or messages, function calls, their outputs and reasoning"},
    "instructions": {"type": ["string", "null"], "description": "the system message"},
    "max_output_tokens": {"type": ["integer", "null"], "minimum": 1, "maximum": 2147483647,
      "description": "by default as many as fit in the context"},
    "text": {"type": ["object", "null"], "additionalProperties": false, "properties": {
      "format": {"type": ["object", "null"], "required": ["type"], "properties": {
        "type": {"enum": ["text", "json_object", "json_schema"]}, "schema": {"type": ["object", "boolean"]}}},
      "verbosity": {"type": ["string", "null"]}}},
    "reasoning": {"type": ["object", "null"], "additionalProperties": false, "properties": {
      "effort": {"type": ["string", "null"], "description": "as reasoning_effort of a chat"},
      "summary": {"type": ["string", "null"], "description": "there is none"},
      "generate_summary": {"type": ["string", "null"], "description": "there is none"}}},
    "tools": {"type": ["array", "null"], "maxItems": 128, "items": {"type": "object", "required": ["type", "name"], "properties": {
      "type": {"const": "function"}, "name": {"type": "string", "pattern": "^[a-zA-Z0-9_.-]{1,64}$"},
      "parameters": {"type": ["object", "null"], "description": "a JSON schema of its arguments"}}}},
    "tool_choice": {"anyOf": [{"enum": ["none", "auto", "required", null]}, {"type": "object", "required": ["type", "name"],
      "properties": {"type": {"const": "function"}, "name": {"type": "string"}}}]},
    "include": {"type": ["array", "null"], "items": {"enum": ["message.output_text.logprobs", "reasoning.encrypted_content"]}},
    "top_logprobs": {"type": ["integer", "null"], "minimum": 0, "maximum": 20},
    "stream_options": {"type": ["object", "null"], "additionalProperties": false, "properties": {
      "include_obfuscation": {"type": ["boolean", "null"], "default": false, "description": "there is none"}}},
    "max_tool_calls": {"type": ["integer", "null"], "minimum": 1, "maximum": 2147483647},
    "truncation": {"enum": ["disabled", null]}, "background": {"enum": [false, null]},
    "previous_response_id": {"type": "null"}, "conversation": {"type": "null"}, "prompt": {"type": "null"}}},
  "Response": {"type": "object", "required": ["id", "object", "created_at", "model", "status", "output", "usage"], "properties": {
    "id": {"type": "string"}, "object": {"const": "response"}, "created_at": {"type": "integer"}, "model": {"type": "string"},
    "status": {"enum": ["completed", "incomplete"]}, "output": {"type": "array", "items": {"type": "object",
      "required": ["id", "type", "status"], "properties": {"id": {"type": "string"}, "status": {"enum": ["completed", "incomplete"]},
        "type": {"enum": ["reasoning", "message", "function_call"]}}}},
    "usage": {"type": "object", "required": ["input_tokens", "output_tokens", "total_tokens"]}}},
  "TokenizeRequest": {"type": "object", "additionalProperties": false,
    "anyOf": [{"required": ["prompt"]}, {"required": ["messages"]}], "properties": {
      "model": {"type": ["string", "null"]}, "prompt": {"type": ["string", "null"]},
      "parse_special": {"type": ["boolean", "null"], "default": true, "description": "as of a completion"},
      "add_special_tokens": {"type": ["boolean", "null"], "default": true, "description": "as of a completion"},
      "messages": {"type": ["array", "null"], "minItems": 1, "items": {"$ref": "#/components/schemas/Message"}}}},
  "Tokens": {"type": "object", "required": ["count", "max_model_len", "tokens"], "properties": {
    "count": {"type": "integer"}, "max_model_len": {"type": "integer"},
    "tokens": {"type": "array", "items": {"type": "integer", "minimum": 0}}}},
  "DetokenizeRequest": {"type": "object", "required": ["tokens"], "additionalProperties": false, "properties": {
    "model": {"type": ["string", "null"]},
    "tokens": {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}}}},
  "LoadAdapterRequest": {"type": "object", "required": ["lora_name", "lora_path"], "additionalProperties": false, "properties": {
    "lora_name": {"type": "string", "pattern": "^[a-zA-Z0-9._/@:+-]{1,128}$"},
    "lora_path": {"type": "string", "minLength": 1, "description": "on the server: a directory as peft writes it, or a GGUF"},
    "load_inplace": {"enum": [false, null]}}},
  "UnloadAdapterRequest": {"type": "object", "required": ["lora_name"], "additionalProperties": false, "properties": {
    "lora_name": {"type": "string"}}},
  "Text": {"type": "object", "required": ["prompt"], "properties": {"prompt": {"type": "string"}}}
})json";

// 2 rather than 2.0, as people write it.
Json number(double value) { return std::trunc(value) == value ? Json(static_cast<int64_t>(value)) : Json(value); }

Json sampler_numbers() {
  Json fields;
  SamplerOptions::visit_fields([&](const char* name, auto member, double low, double high, double otherwise,
                                   const char* help) {
    const bool whole = std::is_integral_v<std::remove_reference_t<decltype(std::declval<SamplerOptions&>().*member)>>;
    fields[name] = {{"type", {whole ? "integer" : "number", "null"}},
                    {"minimum", number(low)},
                    {"maximum", number(high)},
                    {"default", number(otherwise)},
                    {"description", help}};
  });
  return fields;
}

// Of the served model, in the properties of a request.
void set_defaults(Json& properties, const SamplerOptions& defaults) {
  SamplerOptions::visit_fields([&](const char* name, auto member, auto&&...) {
    properties[name]["default"] = number(std::stod(fmt::format("{}", defaults.*member)));  // 0.6, not 0.60000002
  });
}

const Json& schemas() {
  static const Json all = [] {
    Json made = Json::parse(kSchemas);
    Json common = made["Common"];
    common.update(sampler_numbers());
    made.erase("Common");
    for (const char* request : {"CompletionRequest", "ChatRequest"}) made[request]["properties"].update(common);
    for (const char* name : {"n", "best_of", "use_beam_search", "length_penalty", "early_stopping", "response_format",
                             "stream_options", "verbosity"}) {
      common.erase(name);
    }
    for (const char* name : {"parallel_tool_calls", "chat_template_kwargs", "include_reasoning"}) {
      common[name] = made["ChatRequest"]["properties"][name];
    }
    common.update(made["ResponseRequest"]["properties"]);
    made["ResponseRequest"]["properties"] = std::move(common);
    return made;
  }();
  return all;
}

Json content(std::string_view media, std::string_view name) {
  Json body;
  if (!name.empty()) {
    body["$ref"] = fmt::format("#/components/schemas/{}", name);
  } else if (media == "text/event-stream") {
    body = {{"type", "object"}, {"properties", {{"data", {{"type", "string"}}}}}};
  } else {
    body["type"] = media == "application/json" ? "object" : "string";
  }
  return {{std::string(media), {{"schema", body}}}};
}

Json responses(const RouteDescription& route) {
  Json all;
  Json& answer = all["200"] = {{"description", "the answer"}, {"content", content(route.media, route.answer)}};
  if (route.streams) {
    answer["description"] = "the answer; with \"stream\": true, events";
    answer["content"].update(content("text/event-stream", ""));
  }
  const auto error = [&](const char* status, const char* why) {
    all[status] = {{"description", why}, {"content", content("application/json", "Error")}};
  };
  error("403", "the Host header is not one of this server's, or a flag of the server does not allow it");
  if (!route.open) error("401", "the API key is missing or wrong");
  if (route.path.ends_with('}')) error("404", "there is none of that name");
  if (route.request.empty()) return all;
  error("400", "a field is wrong; the error names it");
  error("404", "there is no such model, or no adapter");
  error("413", "the body is too large");
  error("415", "the content type is not application/json");
  error("429", "the queue is full; Retry-After says when to try again");
  error("503", "the server is about to end, or the request took too long");
  return all;
}

}  // namespace

const Json& schema(std::string_view name) { return schemas().at(std::string(name)); }

std::string openapi(std::span<const RouteDescription> routes, const SamplerOptions& defaults) {
  Json paths;
  for (const RouteDescription& route : routes) {
    Json operation{{"summary", route.summary}, {"responses", responses(route)}};
    if (route.open) operation["security"] = Json::array();
    if (!route.request.empty()) {
      operation["requestBody"] = {{"required", true}, {"content", content("application/json", route.request)}};
    }
    if (const size_t brace = route.path.find('{'); brace != std::string_view::npos) {
      operation["parameters"] = Json::array({{{"name", route.path.substr(brace + 1, route.path.size() - brace - 2)},
                                              {"in", "path"},
                                              {"required", true},
                                              {"schema", {{"type", "string"}}}}});
    }
    paths[std::string(route.path)][route.request.empty() ? "get" : "post"] = operation;
  }
  Json described = schemas();
  for (const char* request : {"CompletionRequest", "ChatRequest"})
    set_defaults(described[request]["properties"], defaults);
  const Json all{{"openapi", "3.1.0"},
                 {"info",
                  {{"title", "Folio"},
                   {"version", core::version()},
                   {"description",
                    "A server for one Llama, as OpenAI's completions. Fields that are not listed are "
                    "refused by name."}}},
                 {"security", {{{"key", Json::array()}}}},
                 {"paths", paths},
                 {"components",
                  {{"securitySchemes", {{"key", {{"type", "http"}, {"scheme", "bearer"}}}}}, {"schemas", described}}}};
  return all.dump(1) + "\n";
}

std::string page_fields(const SamplerOptions& defaults) {
  Json properties = schema("ChatRequest")["properties"];
  set_defaults(properties, defaults);
  nlohmann::ordered_json fields;
  SamplerOptions::visit_fields([&](const char* name, auto&&...) { fields[name] = properties.at(name); });
  for (const char* name : {"max_tokens", "seed"}) fields[name] = properties.at(name);
  return fields.dump();
}

}  // namespace folio::infer::server
