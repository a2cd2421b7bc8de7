(ns kv.log
  "The append-only file: the commands that have changed the data, in RESP, in their order."
  (:refer-clojure :exclude [sync])
  (:require
   [clojure.java.io :as io]
   [kv.commands :as commands]
   [kv.db :as db]
   [kv.resp :as resp])
  (:import
   (java.io IOException)
   (java.nio ByteBuffer)
   (java.nio.channels FileChannel)
   (java.nio.file OpenOption StandardOpenOption)
   (java.util Arrays)))

(set! *warn-on-reflection* true)

(defprotocol Disk
  "The file as the server uses it. A test has one that counts, or that is full."
  (length [disk])
  (read-at [disk ^ByteBuffer buffer place] "Fills the buffer from that place on; -1 at the end of the file.")
  (append [disk ^ByteBuffer buffer])
  (cut [disk size] "Drops what is behind that size.")
  (sync [disk])
  (close [disk]))

(extend-type FileChannel
  Disk
  (length [file] (.size file))
  (read-at [file ^ByteBuffer buffer place] (.read file buffer (long place)))
  (append [file ^ByteBuffer buffer]
    (while (.hasRemaining buffer)
      (.write file buffer)))
  (cut [file size] (.truncate file (long size)) (.position file (long size)))
  (sync [file] (.force file false))
  (close [file] (.close file)))

(defn open-file
  "Opens the file in the folder, and makes both if they are not there."
  [folder]
  (let [file (io/file folder "appendonly.aof")]
    (io/make-parents file)
    (FileChannel/open (.toPath file) (into-array OpenOption [StandardOpenOption/CREATE StandardOpenOption/READ StandardOpenOption/WRITE]))))

;; ---- read

(defn- read-more
  "The parser with the next bytes of the file, nil at its end."
  [disk parser ^long place]
  (let [left (- (long (length disk)) place)
        buffer (ByteBuffer/allocate (max 65536 (min left (long (:missing parser)))))
        n (int (read-at disk buffer place))]
    (when (pos? n)
      (resp/add parser (Arrays/copyOf (.array buffer) n)))))

(defn- refuse [place why]
  (throw (ex-info (str "The append-only file is damaged at byte " place ": " why ". Restore it from a copy, or cut it there and lose what follows.")
                  {:place place})))

(defn- replayed [db command place]
  (if-not (commands/write? command)
    (refuse place (str "the command " (pr-str (first command)) " is unknown there"))
    (let [[db reply] (commands/execute db command)]
      (when (instance? kv.resp.Failure reply)
        (refuse place (:message reply)))
      db)))

(defn- check-torn
  "A file that ends inside a record lost its end in a crash. If whole records seem to be in what would be cut, the length in it is damaged."
  [{:keys [bytes from]} ^long place]
  (when (re-find #"\r\n\*\d+\r\n\$\d+\r\n" (subs (resp/text bytes) from))
    (refuse place "a record does not end before others begin")))

(defn replay
  "Reads the file. Returns {:db :size}: the data, and the size of the file without a record at its end that is not whole.

  Throws an ExceptionInfo with the :place if the file is damaged elsewhere."
  [disk]
  (loop [db db/empty-db
         parser (resp/parser {:inline? false})
         place (long 0)]
    (let [{:keys [command error] :as parser} (resp/next-command parser)]
      (cond
        error (refuse place error)
        command (recur (replayed db command place) parser (long (resp/position parser)))
        :else (let [read (+ (long (:base parser)) (alength ^bytes (:bytes parser)))]
                (if-some [parser (read-more disk parser read)]
                  (recur db parser place)
                  (do (check-torn parser place)
                      {:db db :size place})))))))

;; ---- written

;; `size` is a volatile: the bytes that were appended as a whole. The process that appends owns it.
(defrecord Log [disk size])

(defn open
  "Opens the log on a disk: [log db]. A record at the end that is not whole is cut, and said with `tell`."
  [disk tell]
  (let [{db :db whole :size} (replay disk)
        torn (- (long (length disk)) (long whole))]
    (when (pos? torn)
      (tell (str "The append-only file ended inside a record: its last " torn " bytes were cut at byte " whole ".")))
    (cut disk whole)
    [(->Log disk (volatile! whole)) db]))

(defn- failed
  "What the file holds is not known after this failure."
  [what ^IOException e]
  (throw (ex-info (str "The append-only file cannot be " what ": " (ex-message e) ". The server ends.") {:broken true} e)))

(defn write
  "Appends the text. If that fails, the file is as before, and the IOException is thrown."
  [{:keys [disk size]} ^String text]
  (try
    (append disk (ByteBuffer/wrap (resp/bytes-of text)))
    (vswap! size + (.length text))
    (catch IOException e
      (try
        (cut disk @size)
        (catch IOException e (failed "repaired after a failed write" e)))
      (throw e))))

(defn sync-all
  "Returns when all that was written is on the disk."
  [{:keys [disk]}]
  (try
    (sync disk)
    (catch IOException e (failed "synced" e))))
