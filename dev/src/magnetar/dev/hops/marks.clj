(ns magnetar.dev.hops.marks
  "Two functions that a counted program calls: the debugger records what happens between them.")

(set! *warn-on-reflection* true)

(defn begin
  "Starts the recording of one run of the operation with this title."
  [title]
  title)

(defn end
  "Ends the recording."
  []
  nil)
