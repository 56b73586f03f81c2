#include "remote/protocol/connection.h"

#include <poll.h>

#include <fmt/core.h>
#include <algorithm>
#include <cstring>

#include "base/mutex.h"

namespace carya::remote {
namespace {

constexpr std::size_t kTurnBytes = 4 << 20;  // of one direction in one turn, for the sake of others
constexpr std::size_t kReadBytes = 1 << 20;  // of one read; withdraw() waits for no more than that
constexpr std::size_t kDiscardBytes = 64 << 10;
constexpr std::size_t kPartsMax = 64;  // of one system call

}  // namespace

std::uint64_t Payload::bytes() const {
  std::uint64_t all = 0;
  for (const auto& part : parts) all += part.size();
  return all;
}

Connection::Connection(std::unique_ptr<ByteStream> stream, FrameSink& sink)
    : stream_(std::move(stream)), sink_(sink), hashes_(stream_->kind() == "plain"), input_(kInputBytes) {
  gathered_.reserve(kPartsMax + 1);
}

Connection::~Connection() {
  close();
}

void Connection::close() {
  closed_ = true;
  queue_.clear();
  const MutexLock lock(parts_mutex_);
  parts_.clear();
  arriving_ = false;
}

Status Connection::on_ready() {
  if (closed_) return fail(Code::kClosed, "the connection was closed");
  if (overrun_) return fail(Code::kExhausted, "the peer asks faster than it takes the answers");
  if (!established_) {
    ASSIGN(established_, stream_->establish());
    if (!established_) return {};
  }
  TRY(write_some());
  if (is_paused()) return check_peer();
  TRY(read_some());
  return queue_.empty() ? Status() : write_some();
}

/// Whether it is still there, while nothing is read that would tell.
Status Connection::check_peer() const {
  pollfd watched{fd(), 0, 0};
  if (poll(&watched, 1, 0) > 0 && (watched.revents & (POLLERR | POLLHUP)) != 0)
    return fail(Code::kClosed, "the peer has ended the connection");
  return {};
}

// Sending.

void Connection::send_frame(FrameType type, std::string body, std::uint64_t request, Payload payload) {
  if (closed_) return;
  if (queue_.size() >= kQueueMax) {
    overrun_ = true;
    return;
  }
  const bool hashed = hashes_ && payload.bytes() > 0;
  const auto header = encode_header({.type = type,
                                     .flags = hashed ? kHashed : 0,
                                     .body_bytes = static_cast<std::uint32_t>(body.size()),
                                     .request = request,
                                     .payload_bytes = payload.bytes()});
  body.insert(0, reinterpret_cast<const char*>(header.data()), header.size());
  queue_.push_back({.head = std::move(body), .payload = std::move(payload), .hashed = hashed});
}

void Connection::flush() {
  if (!closed_ && established_) static_cast<void>(write_some());
}

/// Once, when its turn comes.
void Connection::add_hash(Queued& frame) {
  if (!frame.hashed || !frame.tail.empty()) return;
  sending_.reset();
  sending_.update(std::as_bytes(std::span(frame.head)));
  for (const auto& part : frame.payload.parts) sending_.update(part);
  const std::uint64_t hash = sending_.digest().low;
  frame.tail.assign(reinterpret_cast<const char*>(&hash), kHashBytes);
}

/// The next bytes to send, from the front of the queue; their count.
std::size_t Connection::gather(std::vector<iovec>& parts) {
  parts.clear();
  std::size_t skip = front_sent_, all = 0;
  const auto add = [&](const void* bytes, std::size_t count) {
    const std::size_t skipped = std::min(skip, count);
    skip -= skipped;
    if (skipped == count || parts.size() >= kPartsMax || all >= kReadBytes) return;
    parts.push_back({static_cast<char*>(const_cast<void*>(bytes)) + skipped, count - skipped});
    all += count - skipped;
  };
  for (Queued& frame : queue_) {
    if (parts.size() >= kPartsMax || all >= kReadBytes) break;
    add_hash(frame);
    add(frame.head.data(), frame.head.size());
    for (const auto& part : frame.payload.parts) add(part.data(), part.size());
    add(frame.tail.data(), frame.tail.size());
  }
  return all;
}

void Connection::drop_sent(std::size_t bytes) {
  sent_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  front_sent_ += bytes;
  while (!queue_.empty()) {
    const std::size_t size = queue_.front().bytes();
    if (front_sent_ < size) return;
    front_sent_ -= size;
    queue_.pop_front();
  }
}

Status Connection::write_some() {
  for (std::size_t turn = 0; turn < kTurnBytes && !queue_.empty();) {
    const std::size_t wanted = gather(gathered_);
    ASSIGN(const std::size_t sent, stream_->write(gathered_));
    drop_sent(sent);
    if (sent < wanted) break;
    turn += sent;
  }
  return {};
}

// Receiving.

Status Connection::read_some() {
  for (std::size_t turn = 0; turn < kTurnBytes;) {
    ASSIGN(const Filled filled, fill());
    received_bytes_.fetch_add(filled.bytes, std::memory_order_relaxed);
    TRY(use_input());
    if (filled.bytes < filled.room || is_paused()) break;  // the socket had no more
    turn += filled.bytes;
  }
  std::size_t wanted = 1;
  if (stage_ == Stage::kPayload) {
    const MutexLock lock(parts_mutex_);
    wanted = static_cast<std::size_t>(left_bytes_);
  }
  stream_->set_wanted(wanted);
  return {};
}

Status Connection::resume() {
  if (!is_paused()) return {};
  stage_ = Stage::kPlace;
  return use_input();
}

/// Steps until bytes are missing.
Status Connection::use_input() {
  for (;;) {
    ASSIGN(const bool stepped, step());
    if (!stepped) return {};
  }
}

/// One stage further; false when that takes bytes that are not there, or a resume().
Result<bool> Connection::step() {
  switch (stage_) {
    case Stage::kHeader:
      return take_header();
    case Stage::kBody:
      if (!take_body()) return false;
      TRY(check_body(body_));
      begin_payload();
      return true;
    case Stage::kPlace:
      TRY(place());
      return stage_ == Stage::kPayload;
    case Stage::kLater:
      return false;
    case Stage::kPayload:
      return take_payload();
    case Stage::kHash:
      return take_hash();
    case Stage::kWhole: {
      bool placed = false;
      {
        const MutexLock lock(parts_mutex_);
        placed = arriving_ && !withdrawn_;
        arriving_ = false;
      }
      stage_ = Stage::kHeader;
      TRY(sink_.take(header_, body_, placed));
      return !closed_;
    }
  }
  return false;
}

Result<bool> Connection::take_header() {
  if (input_end_ - input_begin_ < kHeaderBytes) return false;
  ASSIGN(header_, decode_header(std::span(input_).subspan(input_begin_), limits_));
  input_begin_ += kHeaderBytes;
  body_.resize(header_.body_bytes);
  body_filled_ = 0;
  stage_ = Stage::kBody;
  return true;
}

bool Connection::take_body() {
  const std::size_t count = std::min(body_.size() - body_filled_, input_end_ - input_begin_);
  std::memcpy(body_.data() + body_filled_, input_.data() + input_begin_, count);
  input_begin_ += count;
  body_filled_ += count;
  return body_filled_ == body_.size();
}

/// From here on withdraw() finds the request, so that one that comes while the owner thinks about the place
/// is not overlooked.
void Connection::begin_payload() {
  stage_ = header_.payload_bytes > 0 ? Stage::kPlace : Stage::kWhole;
  if (stage_ == Stage::kWhole) return;
  const MutexLock lock(parts_mutex_);
  arriving_ = true;
  withdrawn_ = false;
  arriving_request_ = header_.request;
  parts_.clear();
  left_bytes_ = header_.payload_bytes;
  if ((header_.flags & kHashed) == 0) return;
  arrived_.reset();
  arrived_.update(encode_header(header_));
  arrived_.update(std::as_bytes(std::span(body_)));
}

Status Connection::place() {
  ASSIGN(ReceiveTarget placement, sink_.place(header_, body_));
  if (placement.where == ReceiveTarget::Where::kLater) {
    stage_ = Stage::kLater;
    return {};
  }
  const MutexLock lock(parts_mutex_);
  if (placement.where == ReceiveTarget::Where::kDiscard) withdrawn_ = true;
  if (!withdrawn_) {
    std::uint64_t room = 0;
    for (const auto& part : placement.parts) room += part.size();
    CHECK(room == header_.payload_bytes);
    parts_ = std::move(placement.parts);
    std::reverse(parts_.begin(), parts_.end());  // the next one is at the back
  }
  stage_ = Stage::kPayload;
  return {};
}

/// Moves on by bytes of the payload that have been received.
void Connection::advance_parts(std::size_t bytes) {
  const bool hashed = (header_.flags & kHashed) != 0;
  left_bytes_ -= bytes;
  while (!parts_.empty() && bytes > 0) {
    const std::size_t here = std::min(bytes, parts_.back().size());
    if (hashed) arrived_.update(parts_.back().first(here));
    bytes -= here;
    parts_.back() = parts_.back().subspan(here);
    if (parts_.back().empty()) parts_.pop_back();
  }
}

/// The part of the payload that came with what was before it. True when it is all there.
bool Connection::take_payload() {
  const MutexLock lock(parts_mutex_);
  const std::size_t count = std::min<std::uint64_t>(left_bytes_, input_end_ - input_begin_);
  std::size_t at = input_begin_;
  std::size_t left = count;
  for (auto part = parts_.rbegin(); part != parts_.rend() && left > 0; ++part) {
    const std::size_t bytes = std::min(left, part->size());
    std::memcpy(part->data(), input_.data() + at, bytes);
    copied_bytes_ += bytes;
    at += bytes;
    left -= bytes;
  }
  input_begin_ += count;
  advance_parts(count);
  if (left_bytes_ > 0) return false;
  stage_ = (header_.flags & kHashed) != 0 ? Stage::kHash : Stage::kWhole;
  return true;
}

/// Of what was thrown away nobody asks whether it was whole.
Result<bool> Connection::take_hash() {
  if (input_end_ - input_begin_ < kHashBytes) return false;
  std::uint64_t hash = 0;
  std::memcpy(&hash, input_.data() + input_begin_, kHashBytes);
  input_begin_ += kHashBytes;
  stage_ = Stage::kWhole;
  const MutexLock lock(parts_mutex_);
  if (!withdrawn_ && hash != arrived_.digest().low)
    return fail(Code::kCorrupt, fmt::format("{} frame {}: its bytes changed on the way",
                                            frame_name(header_.type), header_.request));
  return true;
}

/// One read, of what is missing and of what may follow it.
Result<Connection::Filled> Connection::fill() {
  if (stage_ == Stage::kPayload) return fill_payload();
  std::memmove(input_.data(), input_.data() + input_begin_, input_end_ - input_begin_);
  input_end_ -= input_begin_;
  input_begin_ = 0;
  const iovec input{input_.data() + input_end_, input_.size() - input_end_};
  if (stage_ != Stage::kBody) {
    ASSIGN(const std::size_t got, stream_->read({&input, 1}));
    input_end_ += got;
    return Filled{got, input.iov_len};
  }
  const iovec parts[2] = {{body_.data() + body_filled_, body_.size() - body_filled_}, input};
  ASSIGN(const std::size_t got, stream_->read(parts));
  const std::size_t to_body = std::min(got, parts[0].iov_len);
  body_filled_ += to_body;
  input_end_ = got - to_body;
  return Filled{got, parts[0].iov_len + input.iov_len};
}

Result<Connection::Filled> Connection::fill_payload() {
  const MutexLock lock(parts_mutex_);
  input_begin_ = input_end_ = 0;
  iovec parts[kPartsMax];
  std::size_t count = 0, room = 0;
  if (parts_.empty()) {
    discard_.resize(kDiscardBytes);
    room = std::min<std::uint64_t>(left_bytes_, discard_.size());
    parts[count++] = {discard_.data(), room};
  }
  for (auto part = parts_.rbegin(); part != parts_.rend() && count + 1 < kPartsMax; ++part) {
    if (room >= kReadBytes) break;
    const std::size_t bytes = std::min(part->size(), kReadBytes - room);
    parts[count++] = {part->data(), bytes};
    room += bytes;
  }
  const std::size_t more = room == left_bytes_ ? input_.size() : 0;  // of what comes after it
  if (more > 0) parts[count++] = {input_.data(), more};
  ASSIGN(const std::size_t got, stream_->read({parts, count}));
  const std::size_t to_parts = std::min(got, room);
  advance_parts(to_parts);
  input_end_ = got - to_parts;
  return Filled{got, room + more};
}

bool Connection::withdraw(std::uint64_t request) {
  const MutexLock lock(parts_mutex_);
  if (!arriving_ || withdrawn_ || arriving_request_ != request) return false;
  withdrawn_ = true;
  parts_.clear();
  return true;
}

}  // namespace carya::remote
