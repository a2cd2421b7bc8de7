(ns kv.log
  "The append-only file: the commands that have changed the data, in RESP, in their order.

  A failed write leaves the file as it was. What the disk holds after a failed sync is not known, and a second
  sync may succeed without having written anything. So the program has to end."
  (:require
   [clojure.java.io :as io]
   [kv.commands :as commands]
   [kv.db :as db]
   [kv.resp :as resp])
  (:import
   (java.io File IOException)
   (java.nio ByteBuffer)
   (java.nio.channels FileChannel OverlappingFileLockException)
   (java.nio.file OpenOption Path StandardOpenOption)
   (java.util Arrays)))

(set! *warn-on-reflection* true)

(defn- open-channel ^FileChannel [^Path path & options]
  (FileChannel/open path (into-array OpenOption options)))

(defn- sync-folder
  "Syncs the names in a folder."
  [^Path folder]
  (with-open [channel (open-channel folder StandardOpenOption/READ)]
    (.force channel true)))

(defn- make-folder
  "Makes the folder and those above it, and syncs the name of each."
  [^File folder]
  (when-not (.isDirectory folder)
    (let [parent (.getParentFile folder)]
      (make-folder parent)
      (when-not (.mkdir folder)
        (throw (IOException. (str "the folder " folder " cannot be made"))))
      (sync-folder (.toPath parent)))))

(defn- lock
  "Keeps other servers from the file. The lock ends with the channel, or with the program."
  [^FileChannel channel file]
  (when-not (try
              (.tryLock channel)
              (catch OverlappingFileLockException _ nil))
    (throw (ex-info (str "Another server has the append-only file " file " open. Stop it, or choose another --dir.")
                    {:file (str file)}))))

(defn open-file
  "Opens the file in the folder, and makes both if they are not there. Throws an ExceptionInfo if another
  server has it open."
  ^FileChannel [folder]
  (let [file (.getAbsoluteFile (io/file folder "appendonly.aof"))
        folder (.getParentFile file)]
    (make-folder folder)
    (let [channel (open-channel (.toPath file) StandardOpenOption/CREATE StandardOpenOption/READ
                                StandardOpenOption/WRITE)]
      (try
        (lock channel file)
        (sync-folder (.toPath folder)) ; at each start: the program that made the file may have crashed before
        channel
        (catch Throwable e
          (.close channel)
          (throw e))))))

;; ---- read

(defn- read-more
  "The parser with the next bytes of the file, nil at its end."
  [^FileChannel file parser ^long place]
  (let [left (- (.size file) place)
        buffer (ByteBuffer/allocate (max 65536 (min left (long (:missing parser)))))
        n (.read file buffer place)]
    (when (pos? n)
      (resp/add parser (Arrays/copyOf (.array buffer) n)))))

(defn- refuse [place why]
  (throw (ex-info (str "The append-only file is damaged at byte " place ": " why
                       ". Restore it from a copy, or cut it there and lose what follows.")
                  {:place place})))

(defn- replayed [db command place]
  (if-not (commands/write? command)
    (refuse place (str "the command " (pr-str (first command)) " is unknown there"))
    (let [[db reply] (commands/execute db command)]
      (when (instance? kv.resp.Failure reply)
        (refuse place (:message reply)))
      db)))

(defn replay
  "Reads the file. Returns {:db :size}: the data, and the size of the file without a torn record at its end.

  Records are read from the front. What follows the last whole one is torn if it is the beginning of a record.
  Throws an ExceptionInfo with the :place of anything else."
  [file]
  (loop [db db/empty-db
         parser (resp/parser {:inline? false :max-bulk resp/most-max-bulk})
         place (long 0)]
    (let [{:keys [command error] :as parser} (resp/next-command parser)]
      (cond
        error (refuse place error)
        command (recur (replayed db command place) parser (long (resp/position parser)))
        :else (if-some [parser (read-more file parser (resp/size parser))]
                (recur db parser place)
                (if (resp/torn? parser)
                  {:db db :size place}
                  (refuse place "a record does not begin like this")))))))

;; ---- written

;; `size` is a volatile: the bytes that were appended as a whole. The process that appends owns it.
(defrecord Log [^FileChannel file size])

(defn- cut [^FileChannel file ^long size]
  (.truncate file size)
  (.position file size))

(defn- broken [what ^IOException e]
  (throw (ex-info (str "The append-only file cannot be " what ": " (ex-message e) ". The server ends.")
                  {:what what} e)))

(defn write
  "Appends the text. If that fails, the file is as before, and the IOException is thrown."
  [{:keys [^FileChannel file size]} ^String text]
  (let [buffer (ByteBuffer/wrap (resp/bytes-of text))]
    (try
      (while (.hasRemaining buffer)
        (.write file buffer))
      (vswap! size + (.length text))
      (catch IOException e
        (try
          (cut file @size)
          (catch IOException e (broken "repaired after a failed write" e)))
        (throw e)))))

(defn sync-all
  "Returns when all that was written is on the disk. Throws an ExceptionInfo if that cannot be known."
  [{:keys [^FileChannel file]}]
  (try
    (.force file false)
    (catch IOException e (broken "synced" e))))

(defn- opened
  "[log db]. What was read is synced: the program before may have ended between a write and its sync."
  [^FileChannel file tell]
  (let [{:keys [db size]} (replay file)
        torn (- (.size file) (long size))
        log (->Log file (volatile! size))]
    (when (pos? torn)
      (tell (str "The append-only file ended inside a record: its last " torn " bytes were cut at byte " size
                 ".")))
    (cut file size)
    (when (pos? (+ (long size) torn))
      (sync-all log))
    [log db]))

(defn open
  "Opens the log of a file: [log db]. A torn record at the end is cut, and said with `tell`. If the file is
  damaged, it is closed."
  [^FileChannel file tell]
  (try
    (opened file tell)
    (catch Throwable e
      (.close file)
      (throw e))))

(defn close
  "Closes the file."
  [{:keys [^FileChannel file]}]
  (.close file))
