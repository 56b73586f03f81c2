#include "tests/loader/stream_account.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/philox.h"
#include "loader/stream/chunk_inputs.h"

namespace carya::loader {
namespace {

using transforms::OnError;

/// The k-th substitute of a position, from 0.
std::uint64_t substitute(std::uint64_t seed, std::uint64_t epoch, std::uint64_t position, std::uint32_t k,
                         std::uint64_t records) {
  SampleRng rng(op_key(seed, std::string_view("carya.replace"), 0), epoch, position, 1 + position);
  std::uint64_t drawn = rng.next_below(records);
  for (; k > 0; --k) drawn = rng.next_below(records);
  return drawn;
}
constexpr std::uint32_t kSubstitutesMax = 16;

}  // namespace

StreamAccount::StreamAccount(const Options& given, ModelRecords& records, ModelRing& ring)
    : options(given), records_(records), ring_(ring) {
  ring_.on_acquired = [this](std::uint32_t slot) {
    acquired_.push_back(slot);
    while (begun_ < acquired_.size()) require(begin_batch() || is_short(), "a slot is taken for no batch");
  };
  ring_.on_published = [this](std::uint32_t slot, std::uint64_t sequence, const shm::Meta& meta) {
    published(slot, sequence, meta);
  };
}

bool StreamAccount::is_readable(std::uint64_t record) const {
  return options.has_reads && room(record) > 0;
}

std::uint64_t StreamAccount::room(std::uint64_t record) const {
  return buffer_room(
      records_.dataset->fields()[0].manifest->record(records_.dataset->source_index(record)).bytes);
}

// The next batch of the stream, by the arithmetic of its shape.
bool StreamAccount::begin_batch() {
  if (options.shape.at_end(position_)) {
    if (!options.prefetch_epochs) return false;
    ++epoch_;
    position_ = 0;
  }
  if (options.epochs && epoch_ >= *options.epochs) return false;
  auto batch = std::make_shared<Batch>();
  batch->number = begun_++;
  batch->epoch = epoch_;
  batch->index = position_ / options.shape.global_size;
  batch->position = position_;
  batch->part = options.shape.part(position_);
  position_ += options.shape.step_positions(position_);
  batch->position_after = position_;
  batch->last = options.shape.at_end(position_);
  if (!permutation_ || permutation_epoch_ != epoch_) {
    permutation_.emplace(options.seed, epoch_, options.shape.records);
    permutation_epoch_ = epoch_;
  }
  batch->rows.resize(batch->part.count);
  for (std::uint64_t row = 0; row < batch->part.count; ++row) {
    const std::uint64_t at = batch->part.first + row;
    batch->rows[row].record = options.shuffled ? (*permutation_)(at) : at;
  }
  coming_.push_back(std::move(batch));
  return true;
}

std::shared_ptr<StreamAccount::Batch> StreamAccount::find_batch(const Step& step) {
  for (std::size_t i = 0;; ++i) {
    if (i == coming_.size()) require(begin_batch(), "a chunk is of no batch that comes");
    if (coming_[i]->epoch == step.epoch && coming_[i]->position == step.position) return coming_[i];
  }
}

bool StreamAccount::goes_on() {
  if (failed_ || paused || stopped_) return false;
  return failing_ || !coming_.empty() || begin_batch();
}

std::pair<std::uint64_t, std::uint64_t> StreamAccount::place() const {
  if (coming_.empty()) return {epoch_, position_};
  return {coming_.front()->epoch, coming_.front()->position};
}

StreamAccount::Piece& StreamAccount::known(const Chunk& chunk) {
  const auto found = pieces_.find(&chunk);
  require(found != pieces_.end(), "a chunk is not under way");
  return found->second;
}

// A chunk that is seen for the first time: rows of one batch, side by side, that nobody has begun.
StreamAccount::Piece& StreamAccount::adopt(const Chunk& chunk, bool by_reads) {
  if (const auto before = pieces_.find(&chunk); before != pieces_.end()) {
    require(before->second.doubtful, "a chunk is begun that is under way");
    end(chunk);
  }
  require(!chunk.step->dropped && !failed_ && !stopped_, "a chunk of an old session is begun");
  Piece piece{.batch = find_batch(*chunk.step), .order = chunk.order};
  Batch& batch = *piece.batch;
  require(chunk.step->part == batch.part && !chunk.tasks.empty(), "a chunk's batch is another one");
  std::uint64_t rows_room = 0;
  const std::uint64_t first = chunk.tasks.front().row;
  require(first + chunk.tasks.size() <= batch.part.count, "a chunk has rows that its batch lacks");
  const bool again = batch.rows[first].again;
  for (std::size_t t = 0; t < chunk.tasks.size(); ++t) {
    Row& row = batch.rows[first + t];
    require(row.at == Row::At::kUntouched && row.again == again, "a row is begun twice");
    row.at = Row::At::kInChunk;
    piece.tasks.push_back({first + t, row.record, 0, 0});
    if (is_readable(row.record)) rows_room += room(row.record);
  }
  piece.came_back = again;
  compare_tasks(chunk, piece);
  if (!again && !is_short()) {
    // One without reads was begun before it is seen.
    require(!failing_ || !by_reads, "a chunk is begun behind a failure");
    require(!paused || !by_reads, "a chunk is begun in a pause");
    if (by_reads && options.sees_all)
      require(count(Piece::State::kReading) + count(Piece::State::kReady) <
                  scheduler_->read_ahead().flow().ahead_chunks,
              "more chunks are ahead than the flow says");
    require(!by_reads || ahead_bytes() == 0 ||
                ahead_bytes() + ReadBufferPool::rounded(rows_room) <= options.read_ahead_bytes,
            "the budget of bytes is exceeded");
    for (const auto& [other, known] : pieces_)
      if (known.batch->dropped == false && known.batch != piece.batch)
        require((known.order < piece.order) == (known.batch->number < batch.number),
                "chunks are due in another order than their batches");
  }
  ++batch.chunks;
  return pieces_.emplace(&chunk, std::move(piece)).first->second;
}

void StreamAccount::compare_tasks(const Chunk& chunk, const Piece& piece) const {
  require_equal(chunk.tasks.size(), piece.tasks.size(), "rows of a chunk");
  for (std::size_t t = 0; t < piece.tasks.size(); ++t) {
    const RowTask& task = chunk.tasks[t];
    const Task& must_be = piece.tasks[t];
    require_equal(task.row, must_be.row, "a chunk's row");
    require_equal(task.record, must_be.record, "a row's record");
    require_equal(task.occurrence, must_be.occurrence, "a row's occurrence");
    require_equal(task.position, piece.batch->part.first + must_be.row, "a row's position");
  }
}

// The piece's tasks are to be read, or are ready where nothing is to be read.
void StreamAccount::expect_reads(Piece& piece) {
  piece.rest = false;
  piece.unissued = static_cast<std::size_t>(
      std::ranges::count_if(piece.tasks, [&](const Task& task) { return is_readable(task.record); }));
  piece.state = piece.unissued > 0 ? Piece::State::kReading : Piece::State::kReady;
  piece.placed_to = nullptr;
  std::uint64_t bytes = 0;
  for (const Task& task : piece.tasks)
    if (is_readable(task.record)) bytes += room(task.record);
  if (piece.unissued == 0 || bytes <= piece.buffer) return;
  buffered_ -= piece.buffer;
  piece.buffer = ReadBufferPool::rounded(bytes);
  buffered_ += piece.buffer;
}

void StreamAccount::collect(std::vector<ReadOp*>& reads) {
  for (ReadOp* op : reads) collect_one(*op);
  reads.clear();
  for (const Chunk* chunk : std::exchange(expecting_, {})) {
    const auto found = pieces_.find(chunk);
    if (found == pieces_.end()) continue;
    if (found->second.unissued == 0) {
      found->second.doubtful = ShortMemoryHere::failed() && found->second.state == Piece::State::kReady;
      continue;
    }
    require(is_short(), "a read is missing");
    require_equal(found->second.open, 0U, "reads of a chunk that has no memory");
    end(*chunk);
  }
}

void StreamAccount::collect_one(ReadOp& op) {
  const Chunk& chunk = chunk_of(op);
  require(options.has_reads, "a stream without reads reads");
  if (!pieces_.contains(&chunk)) {
    expect_reads(adopt(chunk, true));
    expecting_.push_back(&chunk);
  }
  Piece& piece = known(chunk);
  require(piece.state == Piece::State::kReading && piece.unissued > 0, "a chunk is read that needs no read");
  if (piece.open == 0) compare_tasks(chunk, piece);
  require(std::ranges::find(open_, &op) == open_.end(), "a read is issued that is under way");
  const std::uint64_t record = piece.tasks.at(op.task).record;
  require_equal(op.job, scheduler_->number(), "the job of a read");
  require_equal(buffer_room(op.request.length), room(record), "the room of a read");
  const std::byte* const begin = chunk.reads->buffer.data();
  require(op.request.dest >= (piece.placed_to ? piece.placed_to : begin), "reads lie on each other");
  piece.placed_to = op.request.dest + op.request.length + kSlackBytes;
  require(piece.placed_to <= begin + chunk.reads->buffer.bytes, "a read does not fit its buffer");
  require_equal(chunk.reads->buffer.bytes, piece.buffer, "the buffer of a chunk");
  --piece.unissued;
  ++piece.open;
  open_.push_back(&op);
}

void StreamAccount::stop_at(Batch& batch, const Stop& stop) {
  failing_ = true;
  if (!batch.stop || stop.row < batch.stop->row) batch.stop = stop;
}

void StreamAccount::read_ended(const ReadOp& op, const io::ReadCompletion&, const Error* error) {
  const Chunk& chunk = chunk_of(op);
  Piece& piece = known(chunk);
  std::erase(open_, &op);
  ++reads_;
  if (!error) bytes_read_ += op.request.length;
  if (error && (!piece.read_error || op.task < piece.read_error->first))
    piece.read_error.emplace(op.task, error->code);
  if (--piece.open > 0) return;
  if (piece.batch->dropped) return end(chunk);
  if (!piece.read_error) {
    piece.state = Piece::State::kReady;
    return;
  }
  const Task& task = piece.tasks[piece.read_error->first];
  stop_at(*piece.batch, {task.row, task.record, piece.read_error->second});
  end(chunk);
}

void StreamAccount::given_up(const ReadOp& op) {
  const Chunk& chunk = chunk_of(op);
  Piece& piece = known(chunk);
  const Task& task = piece.tasks[op.task];
  if (!piece.batch->dropped) stop_at(*piece.batch, {task.row, task.record, Code::kIo});
  std::erase_if(open_, [&](const ReadOp* other) { return &chunk_of(*other) == &chunk; });
  piece.worker = 0;  // its rows are not there, whoever they came from
  end(chunk);
}

void StreamAccount::computed(const Chunk& chunk) {
  Piece& piece = known(chunk);
  // A row that the plan was not asked for is too large to be read, or its thread lacked memory.
  auto ran = records_.ran.begin();
  for (const Task& task : piece.tasks) {
    if (ran != records_.ran.end() && ran->record == task.record && ran->occurrence == task.occurrence) {
      piece.ran.push_back(*ran++);
      continue;
    }
    const bool huge = options.has_reads && room(task.record) == 0;
    require(huge || is_short(), "a row is not computed");
    piece.ran.push_back(
        {task.record, task.occurrence, is_short() && !huge ? Code::kExhausted : Code::kCorrupt});
  }
  // What looks whether a broken record's file has changed may lack memory too.
  for (const auto& [task, error] : chunk.broken)
    if (ShortMemoryHere::failed() && error.code == Code::kExhausted) piece.ran.at(task).failed = error.code;
  require(ran == records_.ran.end(), "more is computed than there are rows");
  records_.ran.clear();
}

void StreamAccount::row_done(Piece& piece, const Task& task, bool masked, bool lie) {
  Row& row = piece.batch->rows[task.row];
  require(row.at == Row::At::kInChunk, "a row is done twice");
  row = {.at = Row::At::kDone,
         .record = task.record,
         .occurrence = task.occurrence,
         .masked = masked,
         .lie = lie,
         .again = row.again};
  ++piece.batch->rows_done;
}

// What the policy makes of a broken row.
void StreamAccount::settle(Piece& piece, const Task& task, Code code, std::vector<Task>& again) {
  Batch& batch = *piece.batch;
  if (code == Code::kIo && options.may_repeat) {
    again.push_back(task);
    return;
  }
  if (code != Code::kCorrupt || options.on_error == OnError::kRaise) {
    stop_at(batch, {task.row, task.record, code});
    return;
  }
  const std::uint64_t position = batch.part.first + task.row;
  Entry entry{position, task.record, -1};
  const bool draws = options.on_error == OnError::kReplace && task.draws < kSubstitutesMax;
  if (draws) {
    const std::uint64_t drawn =
        substitute(options.seed, batch.epoch, position, task.draws, options.shape.records);
    again.push_back({task.row, drawn, 1 + position, task.draws + 1});
    entry.substitute = static_cast<std::int64_t>(drawn);
    ++replaced_;
  }
  batch.entries.insert(std::ranges::upper_bound(batch.entries, position, {}, &Entry::position), entry);
  if (draws) return;
  if (options.on_error == OnError::kReplace) {
    stop_at(batch, {task.row, task.record, code});
    return;
  }
  row_done(piece, task, true, false);
  ++masked_;
}

void StreamAccount::finished(const Chunk& chunk) {
  Piece& piece = known(chunk);
  require(piece.state == Piece::State::kLocal, "a chunk ends that no thread has");
  computed_ += piece.tasks.size();
  const auto ran = std::exchange(piece.ran, {});
  if (piece.batch->dropped) return end(chunk);
  if (piece.distrusted) return begin_again(piece), expecting_.push_back(&chunk);
  std::vector<Task> again;
  for (std::size_t t = 0; t < piece.tasks.size(); ++t) {
    if (ran[t].failed)
      settle(piece, piece.tasks[t], *ran[t].failed, again);
    else
      row_done(piece, piece.tasks[t], false, piece.lie && piece.rest);
  }
  if (again.empty()) return end(chunk);
  if (piece.rest) piece.plan = nullptr;
  piece.tasks = std::move(again);
  expect_reads(piece);
  expecting_.push_back(&chunk);
}

// All rows that came of a worker, from their records, here.
void StreamAccount::begin_again(Piece& piece) {
  forget_entries(*piece.batch, piece.first, piece.count);
  piece.tasks.clear();
  for (std::uint64_t i = piece.first; i < piece.first + piece.count; ++i) {
    Row& row = piece.batch->rows[i];
    if (row.at == Row::At::kDone) --piece.batch->rows_done;
    const std::uint64_t at = piece.batch->part.first + i;
    if (options.shuffled) {
      const Permutation order(options.seed, piece.batch->epoch, options.shape.records);
      row = {.at = Row::At::kInChunk, .record = order(at), .again = true};
    } else {
      row = {.at = Row::At::kInChunk, .record = at, .again = true};
    }
    piece.tasks.push_back({i, row.record, 0, 0});
  }
  piece.plan = nullptr;
  piece.came_back = true;
  piece.distrusted = piece.lie = false;
  piece.worker = 0;
  piece.read_error.reset();
  expect_reads(piece);
}

void StreamAccount::forget_entries(Batch& batch, std::uint64_t first, std::uint64_t count) const {
  std::erase_if(batch.entries, [&](const Entry& entry) {
    return entry.position >= batch.part.first + first && entry.position < batch.part.first + first + count;
  });
}

void StreamAccount::end(const Chunk& chunk) {
  Piece& piece = known(chunk);
  Batch& batch = *piece.batch;
  --batch.chunks;
  for (std::uint64_t i = piece.first; piece.worker != 0 && i < piece.first + piece.count; ++i)
    batch.rows[i].worker = piece.worker;
  buffered_ -= piece.buffer;
  pieces_.erase(&chunk);
}

void StreamAccount::remote_ended(const ChunkWork& work, bool computed, bool lied) {
  const Chunk& chunk = *work.chunk;
  Piece& piece = known(chunk);
  require(piece.state == Piece::State::kRemote, "a chunk comes back that was not away");
  if (piece.batch->dropped) return end(chunk);
  if (!computed || distrusted_.contains(work.worker)) {
    piece.state = Piece::State::kReady;
    piece.came_back = true;
    return;
  }
  piece.worker = work.worker;
  piece.first = piece.tasks.front().row;
  piece.count = piece.tasks.size();
  piece.lie = lied;
  ++remote_chunks_;
  if (work.cut->rest) {
    piece.state = Piece::State::kReady;
    piece.rest = true;
    piece.plan = work.cut->rest.get();
    return;
  }
  for (const Task& task : piece.tasks) row_done(piece, task, false, lied);
  end(chunk);
}

void StreamAccount::lost_for_memory(const Chunk& chunk) {
  require(ShortMemoryHere::failed(), "what came of a worker is thrown away");
  if (!pieces_.contains(&chunk)) return;
  failing_ = true;
  end(chunk);
}

void StreamAccount::distrusted(std::uint64_t worker) {
  distrusted_.insert(worker);
  for (auto& [chunk, piece] : pieces_) {
    // One that was being read when its worker was distrusted may be begun again now.
    if ((piece.worker != worker && !piece.distrusted) || piece.batch->dropped) continue;
    if (piece.state == Piece::State::kReady)
      begin_again(piece), expecting_.push_back(chunk);
    else
      piece.distrusted = true;
  }
  for (const auto& batch : coming_)
    for (std::uint64_t i = 0; i < batch->rows.size(); ++i) {
      Row& row = batch->rows[i];
      if (row.worker != worker) continue;
      forget_entries(*batch, i, 1);
      if (row.at == Row::At::kDone) --batch->rows_done;
      const std::uint64_t at = batch->part.first + i;
      const Permutation order(options.seed, batch->epoch, options.shape.records);
      row = {.record = options.shuffled ? order(at) : at, .again = true};
    }
}

std::size_t StreamAccount::count(Piece::State state) const {
  return static_cast<std::size_t>(std::ranges::count_if(pieces_, [&](const auto& entry) {
    const Piece& piece = entry.second;
    return piece.state == state && (state != Piece::State::kReading || piece.open > 0);
  }));
}

// Of chunks that nobody computes yet.
std::uint64_t StreamAccount::ahead_bytes() const {
  std::uint64_t bytes = buffered_;
  for (const auto& [chunk, piece] : pieces_)
    if (piece.state == Piece::State::kLocal || piece.state == Piece::State::kRemote) bytes -= piece.buffer;
  return bytes;
}

const StreamAccount::Piece* StreamAccount::first_ready() const {
  const Piece* first = nullptr;
  for (const auto& [chunk, piece] : pieces_)
    if (piece.state == Piece::State::kReady && !piece.doubtful && has_slot(piece) &&
        (!first || piece.order < first->order))
      first = &piece;
  return first;
}

void StreamAccount::taken(Chunk* chunk) {
  const Piece* const first = first_ready();
  if (chunk == nullptr) {
    require(first == nullptr || count(Piece::State::kLocal) >= scheduler_->parallelism().cores(),
            "a chunk that is ready is not given to a thread");
    return;
  }
  require(count(Piece::State::kLocal) < scheduler_->parallelism().cores(),
          "more chunks run than cores are used");
  if (const auto found = pieces_.find(chunk); found != pieces_.end()) found->second.doubtful = false;
  if (!pieces_.contains(chunk)) {
    require(!options.sees_all || is_short(), "a chunk is computed that was not read");
    adopt(*chunk, false).state = Piece::State::kReady;
  }
  Piece& piece = known(*chunk);
  require(piece.state == Piece::State::kReady, "a chunk is given to a thread that is not ready");
  require(has_slot(piece), "a chunk is given to a thread that has no slot");
  require(first == nullptr || piece.order <= first->order, "a chunk that is due later is computed first");
  require_equal(*chunk->step->slot, acquired_[piece.batch->number], "the slot of a batch");
  compare_tasks(*chunk, piece);
  if (piece.plan == nullptr) piece.plan = plan.get();
  require(chunk->plan.get() == piece.plan, "a chunk is computed by another plan");
  piece.state = Piece::State::kLocal;
}

bool StreamAccount::is_fresh(const Piece& piece) const {
  if (piece.rest || piece.came_back || piece.worker != 0) return false;
  for (std::size_t t = 0; t < piece.tasks.size(); ++t)
    if (piece.tasks[t].draws > 0 || piece.tasks[t].row != piece.tasks[0].row + t ||
        (options.has_reads && !is_readable(piece.tasks[t].record)))
      return false;
  return true;
}

bool StreamAccount::is_late_enough(const Piece& piece, std::size_t batches_before) const {
  const std::size_t ready = batches_before > 0 ? ring_.count(ModelRing::State::kReady) : 0;
  return ready + (piece.batch->number - published_) >= batches_before;
}

void StreamAccount::taken_remote(const ChunkWork* work, const ChunkWanted& wanted, bool was_short) {
  if (work != nullptr && !pieces_.contains(work->chunk)) {
    require(!options.sees_all || is_short(), "a chunk is sent that was not read");
    adopt(*work->chunk, false).state = Piece::State::kReady;
  }
  std::vector<const Piece*> ready;
  for (const auto& [chunk, piece] : pieces_)
    if (piece.state == Piece::State::kReady && has_slot(piece)) ready.push_back(&piece);
  std::ranges::sort(ready, {}, [](const Piece* piece) { return piece->order; });
  Piece* const given = work == nullptr ? nullptr : &known(*work->chunk);
  for (std::size_t i = wanted.keep_local; options.sees_all && !was_short && i < ready.size(); ++i) {
    if (ready[i] == given) break;
    require(!is_fresh(*ready[i]) || !is_late_enough(*ready[i], wanted.min_batches_ahead),
            "a chunk that may go to a worker is passed over");
  }
  if (given == nullptr) return;
  const auto at = static_cast<std::size_t>(std::ranges::find(ready, given) - ready.begin());
  require(at < ready.size(), "a chunk is sent that is not ready");
  require(!options.sees_all || at >= wanted.keep_local, "a chunk is sent that is this machine's");
  require(is_fresh(*given), "a chunk is sent that may not go");
  require(wanted.allow_final || is_late_enough(*given, wanted.min_batches_ahead),
          "a chunk is sent that is due");
  compare_tasks(*work->chunk, *given);
  given->state = Piece::State::kRemote;
}

bool StreamAccount::can_compute(const ChunkWork& work) const {
  return std::ranges::none_of(work.chunk->tasks, [&](const RowTask& task) {
    return records_.broken_first.contains(task.record) ||
           (!work.cut->rest && records_.broken_second.contains(task.record));
  });
}

void StreamAccount::waited_for(const Step* step) const {
  if (step == nullptr) return;
  require(count(Piece::State::kLocal) == 0 && count(Piece::State::kRemote) > 0 && !first_ready(),
          "it is said to wait for workers, and does not");
  require(step->epoch == coming_.front()->epoch && step->position == coming_.front()->position,
          "another batch is waited for than the next");
  require_equal(ring_.count(ModelRing::State::kReady), 0U, "batches that lie ready while one is waited for");
}

// What may be begun has been begun.
void StreamAccount::pumped() const {
  if (is_short() || failing_ || failed_ || stopped_ || !options.sees_all) return;
  for (const auto& batch : coming_)
    if (batch->chunks + batch->rows_done > 0 && batch->number >= acquired_.size())
      require(!ring_.has_room(), "a slot is free, and a batch has none");
  const bool ends = options.epochs || !options.prefetch_epochs || options.shape.pad_last;
  if (paused || ends) return;
  const bool ahead = count(Piece::State::kReading) + count(Piece::State::kReady) >=
                     scheduler_->read_ahead().flow().ahead_chunks;
  require(ahead || ahead_bytes() > 0, "nothing is read ahead");
  // A record and its neighbours never take as much.
  const bool ample =
      options.read_ahead_bytes > ahead_bytes() + (std::uint64_t{4} << 20) && options.has_memory;
  require(ahead || !ample, "less is read ahead than may be");
}

void StreamAccount::drop() {
  for (const auto& batch : coming_) batch->dropped = true;
  for (auto piece = pieces_.begin(); piece != pieces_.end();) {
    const auto next = std::next(piece);
    if (piece->second.state == Piece::State::kReady) end(*piece->first);
    piece = next;
  }
  coming_.clear();
}

void StreamAccount::seek(std::uint64_t epoch, std::uint64_t position) {
  drop();
  ++session_;
  epoch_ = epoch;
  position_ = position;
  begun_ = published_ = 0;
  acquired_.clear();
  places_.clear();
  failing_ = failed_ = mixed_ = short_ = paused = false;
}

void StreamAccount::published(std::uint32_t slot, std::uint64_t sequence, const shm::Meta& meta) {
  require_equal(sequence, sequence_ + 1, "the sequence of a batch");
  sequence_ = sequence;
  ++batches_;
  require_equal(meta[kMetaSession], session_, "the session of a batch");
  require(!failed_ && !stopped_, "a batch is published behind the end");
  const bool failure = meta[kMetaKind] == static_cast<std::uint64_t>(SlotKind::kFailure);
  if (coming_.empty() && !begin_batch()) {
    require(failure && is_short(), "a batch is published that the stream does not have");
    failed_ = true;
    return;
  }
  const std::shared_ptr<Batch> batch = coming_.front();
  require_equal(slot, acquired_.at(batch->number), "the slot of the batch that is published");
  require(failure || meta[kMetaKind] == static_cast<std::uint64_t>(SlotKind::kBatch), "a slot's kind");
  if (failure) {
    published_failure(*batch);
  } else {
    require(!batch->stop, "a batch is published that failed");
    require_equal(batch->rows_done, batch->part.count, "rows of a batch that is published");
    require_equal(batch->chunks, 0U, "chunks under way of a batch that is published");
    published_batch(*batch, ring_.data(slot));
  }
  if (!failure || !is_short()) {
    require_equal(meta[kMetaEpoch], batch->epoch, "the epoch of a batch");
    require_equal(meta[kMetaStep], batch->index, "the step of a batch");
    require_equal(meta[kMetaPosition], batch->position_after, "the position behind a batch");
    require_equal(meta[kMetaRows], batch->part.rows, "the rows of a batch");
    require_equal(meta[kMetaLast], std::uint64_t{batch->last}, "the end of an epoch");
    require_equal(meta[kMetaFound] != 0, failure || !batch->entries.empty(), "what a batch says of its rows");
    compare_entries(*batch, sequence);
  }
  places_.push_back({sequence, batch->epoch, batch->position});
  // The place of a failure for which there was no memory is behind all that was begun, and has no rows.
  if (!failure || meta[kMetaRows] > 0) samples_ += batch->part.count;
  ++published_;
  for (const Row& row : batch->rows)
    if (row.worker != 0) went_out_.emplace(row.worker, batch->epoch);
  coming_.pop_front();
  if (failure) {
    failed_ = true;
    drop();
  }
}

void StreamAccount::published_failure(const Batch& batch) const {
  require(batch.stop || is_short(), "a batch fails of which nothing failed");
  require(scheduler_->sequencer().failure().has_value(), "a stream has failed without a failure");
  const RecordError& failure = *scheduler_->sequencer().failure();
  if (is_short()) return;
  require_equal(batch.chunks, 0U, "chunks under way of a batch that failed");
  require_equal(failure.position, batch.part.first + batch.stop->row, "the position of a failure");
  require_equal(failure.record, batch.stop->record, "the record of a failure");
  require_equal(failure.epoch, batch.epoch, "the epoch of a failure");
  require(failure.error.code == batch.stop->code, "the code of a failure");
}

void StreamAccount::published_batch(const Batch& batch, const std::byte* data) {
  for (std::uint64_t i = 0; i < batch.part.rows; ++i) {
    const bool padding = i >= batch.part.count;
    compare_row(padding ? Row{.record = UINT64_MAX, .masked = true} : batch.rows[i], i, batch.epoch, data);
    const auto& valid = ring_.layout().tensors().back();
    const bool is_valid = data[valid.offset + i] != std::byte{0};
    const bool must_be = !padding && !batch.rows[i].masked && !(batch.part.repeated && i == 0);
    require_equal(is_valid, must_be, "whether a row is valid");
  }
}

void StreamAccount::compare_row(const Row& row, std::uint64_t index, std::uint64_t epoch,
                                const std::byte* data) const {
  const auto& tensors = ring_.layout().tensors();
  const auto word = [&](std::size_t tensor, std::size_t bytes) {
    std::int64_t value = 0;
    std::memcpy(&value, data + tensors[tensor].offset + index * bytes, bytes);
    return value;
  };
  require_equal(word(tensors.size() - 2, 8), static_cast<std::int64_t>(row.record), "a row's record");
  if (row.lie) return;
  const std::uint64_t image = row.masked ? 0 : records_.image(epoch, row.record, row.occurrence);
  require_equal(static_cast<std::uint64_t>(word(0, kModelImageBytes)), image, "a row's image");
  if (tensors.size() == 3) return;
  const std::int64_t label = row.masked ? 0 : records_.dataset->label(row.record);
  require_equal(word(1, options.label_int32 ? 4 : 8), label, "a row's label");
}

void StreamAccount::compare_entries(const Batch& batch, std::uint64_t sequence) const {
  const auto& published = scheduler_->sequencer().quarantine();
  const auto found = published.find(sequence);
  const std::size_t entries = found == published.end() ? 0 : found->second.size();
  require_equal(entries, batch.entries.size(), "entries of a batch in the quarantine");
  for (std::size_t i = 0; i < entries; ++i) {
    const RecordError& failure = found->second[i];
    require_equal(failure.position, batch.entries[i].position, "the position of an entry");
    require_equal(failure.record, batch.entries[i].record, "the record of an entry");
    require_equal(failure.substitute, batch.entries[i].substitute, "the substitute of an entry");
    require_equal(failure.epoch, batch.epoch, "the epoch of an entry");
    require(failure.error.code == Code::kCorrupt, "an entry of a row that is not broken");
  }
}

// Of this session, and of batches that were dropped while their chunks are under way.
std::uint32_t StreamAccount::filling() const {
  std::set<const Batch*> buried;
  for (const auto& [chunk, piece] : pieces_)
    if (piece.batch->dropped && chunk->step->slot) buried.insert(piece.batch.get());
  const std::size_t present = failed_ || stopped_ ? 0 : acquired_.size() - published_;
  return static_cast<std::uint32_t>(present + buried.size());
}

void StreamAccount::verify(bool thorough) const {
  require_equal(scheduler_->chunks().count(ChunkState::kLocal), count(Piece::State::kLocal),
                "chunks that threads have");
  require_equal(scheduler_->chunks().count(ChunkState::kRemote), count(Piece::State::kRemote),
                "chunks that workers have");
  require_equal(scheduler_->read_ahead().reads_open(), open_.size(), "reads under way");
  require_equal(scheduler_->sequencer().session(), session_, "the session");
  if (!coming_.empty() && coming_.front()->number < acquired_.size() && !is_short()) {
    const Batch& next = *coming_.front();
    const bool complete = next.rows_done == next.part.count && next.part.count > 0;
    require(next.chunks > 0 || (!complete && !(next.stop && options.sees_all)),
            "a batch is complete and not published");
  }
  if (!thorough) return;
  require_equal(ring_.count(ModelRing::State::kFilling), filling(), "slots that are being filled");
  require(scheduler_->parallelism().totals().taken_samples <=
              static_cast<double>(ring_.released() * options.shape.rank_rows_max()),
          "samples count as taken that the reader did not give back");
  const SchedulerStats stats = scheduler_->stats();
  require_equal(stats.batches, batches_, "batches");
  require_equal(stats.samples, samples_, "samples");
  require_equal(stats.reads, reads_, "reads");
  require_equal(stats.bytes_read, bytes_read_, "bytes read");
  if (std::ranges::none_of(pieces_, [](const auto& entry) { return entry.second.doubtful; }))
    require_equal(stats.buffered_bytes, buffered_, "bytes of read buffers");
  require_equal(stats.remote_chunks, remote_chunks_, "chunks that workers computed");
  require_equal(stats.local_samples + stats.rest_samples, computed_, "samples that were computed here");
  if (counts_) return;
  require_equal(stats.masked, masked_, "rows masked");
  require_equal(stats.replaced, replaced_, "rows replaced");
}

void StreamAccount::check_place(std::uint64_t epoch, std::uint64_t position) const {
  if (is_short()) return;
  const auto is = scheduler_->sequencer().sequence_at(epoch, position);
  if (options.prefetch_epochs && options.shape.at_end(position)) {
    ++epoch;
    position = 0;
  }
  auto [next_epoch, next_position] = place();
  if (options.prefetch_epochs && options.shape.at_end(next_position)) {
    ++next_epoch;
    next_position = 0;
  }
  std::optional<std::uint64_t> must_be;
  for (std::size_t i = places_.size() - std::min<std::size_t>(places_.size(), ring_.slots());
       i < places_.size(); ++i)
    if (places_[i].epoch == epoch && places_[i].position == position) must_be = places_[i].sequence;
  if (epoch == next_epoch && position == next_position) must_be = sequence_ + 1;
  if (failing_ || failed_ || mixed_ || stopped_) must_be.reset();
  require_equal(is.value_or(0), must_be.value_or(0), "the sequence of a place");
}

void StreamAccount::check_went_out(std::uint64_t worker) const {
  if (went_out_.size() > 64) return;
  const std::string text = scheduler_->sequencer().went_out(worker);
  for (const auto& [who, epoch] : went_out_)
    require(who != worker || text.find("epoch " + std::to_string(epoch) + " steps") != std::string::npos,
            "batches with rows of a worker are not told");
}

}  // namespace carya::loader
