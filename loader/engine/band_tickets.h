#pragma once

namespace carya::loader {

/// Adds threads to work that has begun.
class TicketOffice {
 public:
  virtual ~TicketOffice() = default;
  /// One more thread calls help() of the work: at once, later, or when there is nothing left to do. False: no memory.
  virtual bool add() = 0;
};

/// Work of one thread that others may help with.
class TicketWork {
 public:
  virtual ~TicketWork() = default;
  virtual void lead(TicketOffice& office) noexcept = 0;
  virtual void help() noexcept = 0;
};

/// Whether this process has threads for tickets: built with oneTBB, and no forked child of a process that has them.
bool tickets_available();

/// Calls work.lead() on this thread and, for each add(), work.help() on a thread of oneTBB, or on this one once lead()
/// has returned. Returns when all of them have. A thread that waits here takes no other work.
void run_with_tickets(TicketWork& work);

}  // namespace carya::loader
