#include "remote/messages.h"

#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

namespace carya::remote {
namespace {

using Json = nlohmann::json;

// The fields of each message, once for both directions. A name is never given another meaning.

#define CARYA_FIELDS(Type)                                    \
  template <typename Archive, typename Given>                 \
    requires std::is_same_v<std::remove_const_t<Given>, Type> \
  void fields([[maybe_unused]] Archive& a, [[maybe_unused]] Given& d)

CARYA_FIELDS(Fact) {
  a("name", d.name), a("value", d.value);
}
CARYA_FIELDS(Window) {
  a("requests", d.requests), a("bytes", d.bytes);
}
CARYA_FIELDS(Error) {
  a("code", d.code), a("message", d.message), a("errno", d.sys_errno);
}
CARYA_FIELDS(Hello) {
  a("client", d.client), a("facts", d.facts), a("token", d.token);
}
CARYA_FIELDS(Welcome) {
  a("server", d.server), a("facts", d.facts), a("window", d.window);
  a("request_bytes_max", d.request_bytes_max), a("result_bytes_max", d.result_bytes_max);
  a("heartbeat_ms", d.heartbeat_ms);
}
CARYA_FIELDS(Register) {
  a("plan", d.plan), a.blob("about", d.about);
}
CARYA_FIELDS(Registered) {
  a("plan", d.plan), a.blob("about", d.about);
}
CARYA_FIELDS(UnknownPlan) {
  a("plan", d.plan);
}
CARYA_FIELDS(Request) {
  a("plan", d.plan), a.blob("about", d.about), a("result_bytes", d.result_bytes);
}
CARYA_FIELDS(ChunkResult) {
  a.blob("about", d.about);
}
CARYA_FIELDS(ChunkFailed) {
  a("error", d.error);
}
CARYA_FIELDS(Credit) {
  a("window", d.window);
}
CARYA_FIELDS(Ping) {}
CARYA_FIELDS(Pong) {}
CARYA_FIELDS(Drain) {}
CARYA_FIELDS(ErrorIs) {
  a("error", d.error);
}

#undef CARYA_FIELDS

class Writer {
 public:
  template <typename T>
  void operator()(const char* name, const T& value) {
    out_[name] = value_of(value);
  }
  void blob(const char* name, const std::string& bytes) {
    out_[name] = Json::binary(std::vector<std::uint8_t>(bytes.begin(), bytes.end()));
  }
  Json take() { return std::move(out_); }

  template <typename T>
  static Json value_of(const T& value) {
    if constexpr (std::is_same_v<T, std::vector<Fact>>) {
      Json list = Json::array();
      for (const Fact& fact : value) list.push_back(value_of(fact));
      return list;
    } else if constexpr (std::is_enum_v<T>) {
      return static_cast<int>(value);
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      return value;
    } else {
      Writer inner;
      fields(inner, value);
      return inner.take();
    }
  }

 private:
  Json out_ = Json::object();
};

class Reader {
 public:
  explicit Reader(Json& in) : in_(in) {}

  template <typename T>
  void operator()(const char* name, T& value) {
    const auto found = in_.find(name);
    if (wrong_.empty() && found != in_.end() && !read(*found, value)) wrong_ = name;
  }
  void blob(const char* name, std::string& bytes) {
    const auto found = in_.find(name);
    if (!wrong_.empty() || found == in_.end()) return;
    if (!found->is_binary()) {
      wrong_ = name;
      return;
    }
    bytes.assign(found->get_binary().begin(), found->get_binary().end());
  }
  /// Name of the first field that is not what it should be, or "".
  const std::string& wrong() const { return wrong_; }

 private:
  template <typename T>
  static bool read(Json& in, T& value) {
    if constexpr (std::is_same_v<T, std::vector<Fact>>) {
      if (!in.is_array()) return false;
      for (Json& item : in)
        if (!read(item, value.emplace_back())) return false;
      return true;
    } else if constexpr (std::is_same_v<T, Code>) {
      int number = 0;
      if (!read(in, number) || number < 0 || number > static_cast<int>(Code::kForked)) return false;
      value = static_cast<Code>(number);
      return true;
    } else if constexpr (std::is_integral_v<T>) {
      if (in.is_number_unsigned()) {
        const auto number = in.get<std::uint64_t>();
        return std::in_range<T>(number) && (value = static_cast<T>(number), true);
      }
      if (!in.is_number_integer()) return false;
      const auto number = in.get<std::int64_t>();
      return std::in_range<T>(number) && (value = static_cast<T>(number), true);
    } else if constexpr (std::is_same_v<T, std::string>) {
      return in.is_string() && (value = in.get<std::string>(), true);
    } else {
      if (!in.is_object()) return false;
      Reader inner(in);
      fields(inner, value);
      return inner.wrong().empty();
    }
  }

  Json& in_;
  std::string wrong_;
};

}  // namespace

template <typename Message>
std::string encode(const Message& message) {
  Writer writer;
  fields(writer, message);
  std::string body;
  Json::to_cbor(writer.take(), nlohmann::detail::output_adapter<char>(body));
  return body;
}

template <typename Message>
Result<Message> decode(const std::string& body) {
  TRY(check_body(body));
  Json in = Json::from_cbor(body, true, false);
  const std::string subject(frame_name(Message::kType));
  if (!in.is_object()) return fail(Code::kCorrupt, subject + " frame: its body is no map of named fields");
  Message message;
  Reader reader(in);
  fields(reader, message);
  if (!reader.wrong().empty())
    return fail(Code::kCorrupt, subject + " frame: " + reader.wrong() + " is not as expected");
  return message;
}

bool server_may_say(FrameType type) {
  return type != FrameType::kHello && type != FrameType::kRegister && type != FrameType::kRequest;
}

bool client_may_say(FrameType type) {
  return type == FrameType::kHello || type == FrameType::kRegister || type == FrameType::kRequest ||
         type == FrameType::kPing || type == FrameType::kPong || type == FrameType::kError;
}

#define CARYA_MESSAGE(Type)                 \
  template std::string encode(const Type&); \
  template Result<Type> decode<Type>(const std::string&);
CARYA_MESSAGE(Hello)
CARYA_MESSAGE(Welcome)
CARYA_MESSAGE(Register)
CARYA_MESSAGE(Registered)
CARYA_MESSAGE(UnknownPlan)
CARYA_MESSAGE(Request)
CARYA_MESSAGE(ChunkResult)
CARYA_MESSAGE(ChunkFailed)
CARYA_MESSAGE(Credit)
CARYA_MESSAGE(Ping)
CARYA_MESSAGE(Pong)
CARYA_MESSAGE(Drain)
CARYA_MESSAGE(ErrorIs)

}  // namespace carya::remote
