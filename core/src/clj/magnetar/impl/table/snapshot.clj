(ns magnetar.impl.table.snapshot
  "The file of a snapshot: text in UTF-8, of lines.

    magnetar-table 1 {:kind :set :key 0 :access :public :name nil}
    [:apples 3]
    end 1 c0ffee..

  A row is EDN on one line; the last line has the number of rows and the SHA-256, in hexadecimal, of all bytes before that sum. Reading runs no code."
  {:no-doc true}
  (:require
   [clojure.edn :as edn]
   [clojure.string :as str]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime]
   [magnetar.impl.table.life :as life])
  (:import
   (java.io BufferedReader File IOException InputStreamReader OutputStream RandomAccessFile)
   (java.nio.channels Channels ClosedByInterruptException FileChannel)
   (java.nio.charset StandardCharsets)
   (java.nio.file CopyOption FileSystemException Files LinkOption NoSuchFileException OpenOption Path StandardCopyOption StandardOpenOption)
   (java.nio.file.attribute FileAttribute PosixFilePermission PosixFilePermissions)
   (java.security MessageDigest)
   (java.util HexFormat)
   (magnetar.impl.table.life Table)))

(set! *warn-on-reflection* true)

(def ^:private opening "magnetar-table 1 ")

(def ^:private longest-end
  "More bytes than the last line can have."
  128)

(defn- bytes-of ^bytes [^String s]
  (.getBytes s StandardCharsets/UTF_8))

(defn- text-of [^bytes bytes]
  (String. bytes StandardCharsets/UTF_8))

(defn path-of
  "The path that a string or a File names."
  ^Path [operation file]
  (cond
    (string? file) (.toPath (File. ^String file))
    (instance? File file) (.toPath ^File file)
    (instance? Path file) file
    :else (arguments/misuse :magnetar/bad-file
                            (str "`" operation "` wants the name of a file, a File or a Path; this is " (arguments/show file) ".") {:file file})))

;; ---- writing

(defn- printed ^String [x]
  (binding [*print-length* nil, *print-level* nil, *print-meta* false, *print-dup* false, *print-readably* true, *print-namespace-maps* false]
    (pr-str x)))

;; Readers of a program may do anything; these make pids and references.
(defn- read-back [text]
  (edn/read-string {:readers (select-keys *data-readers* '[magnetar/pid magnetar/ref])} text))

(defn- line-of
  "The bytes of a value on a line; fails if what is read from them is not the value."
  ^bytes [x]
  (let [bytes (bytes-of (str (printed x) "\n"))
        back (try (read-back (text-of bytes)) (catch RuntimeException _ ::none))]
    (when-not (= x back)
      (arguments/misuse :magnetar/not-data
                        (str "Cannot save " (arguments/show x) ": written as EDN and read back it would not be the same. Rows in a file are plain data.")
                        {:row x}))
    bytes))

(defn- write [^OutputStream out ^MessageDigest digest ^bytes bytes]
  (.update digest bytes)
  (.write out bytes))

(defn- digest ^MessageDigest []
  (MessageDigest/getInstance "SHA-256"))

(defn- hex [^MessageDigest digest]
  (.formatHex (HexFormat/of) (.digest digest)))

(defn- header [^Table t]
  (bytes-of (str opening (printed {:kind (.-kind t) :key (.-key t) :access (.-access t) :name (some-> (life/holding t) .-name)}) "\n")))

(defn- write-rows
  "Writes the whole file; returns the number of rows."
  [^OutputStream out ^Table t rows]
  (let [digest (digest)
        write-row (fn [n row] (write out digest (line-of row)) (inc (long n)))]
    (line-of (.-key t))
    (write out digest (header t))
    (let [n (reduce write-row 0 rows)]
      (write out digest (bytes-of (str "end " n " ")))
      (.write out (bytes-of (str (hex digest) "\n")))
      n)))

(defn- force-folder
  "Makes the renaming itself last, where a folder can be opened."
  [^Path folder]
  (try
    (with-open [channel (FileChannel/open folder (into-array OpenOption [StandardOpenOption/READ]))]
      (.force channel true))
    (catch java.io.IOException _ nil)))

(defn- write-file
  "Writes the file beside its place, and to the disk."
  [^Path file t rows]
  (with-open [channel (FileChannel/open file (into-array OpenOption [StandardOpenOption/WRITE]))
              out (java.io.BufferedOutputStream. (Channels/newOutputStream channel) 65536)]
    (let [n (write-rows out t rows)]
      (.flush out)
      (.force channel true)
      n)))

(defn- check-place
  "Refuses a place where no file can be."
  [^Path file]
  (when (Files/isDirectory file (make-array LinkOption 0))
    (arguments/misuse :magnetar/bad-file (str "`save` wants the name of a file; " file " is a folder.") {:file (str file)}))
  (when-not (Files/isDirectory (.getParent file) (make-array LinkOption 0))
    (arguments/misuse :magnetar/bad-file (str "`save` to " file ": there is no such folder; make it first.") {:file (str file)})))

(defn- permissions
  "The permissions of a file; nil if there is no file, or its file system has no such permissions."
  [^Path file]
  (try
    (into #{} (Files/getPosixFilePermissions file (make-array LinkOption 0)))
    (catch NoSuchFileException _)
    (catch UnsupportedOperationException _)))

(defn- make-beside
  "Makes a file in the same folder. Only users who may read the file that it shall replace may read it."
  ^Path [^Path file allowed]
  (let [beside (.resolveSibling file (str "." (.getFileName file) "." (random-uuid) ".part"))
        own (when allowed
              (PosixFilePermissions/asFileAttribute (conj allowed PosixFilePermission/OWNER_READ PosixFilePermission/OWNER_WRITE)))]
    (Files/createFile beside (into-array FileAttribute (when own [own])))))

(defn- why
  "What the system says, without the name of the file beside it, which is our own matter."
  [^IOException e]
  (or (if (instance? FileSystemException e) (.getReason ^FileSystemException e) (ex-message e))
      (.getSimpleName (class e))))

(defn- replace-file [^Path file t rows]
  (let [allowed (permissions file)
        beside (make-beside file allowed)]
    (try
      (let [n (write-file beside t rows)]
        (when allowed (Files/setPosixFilePermissions beside allowed))
        (Files/move beside file (into-array CopyOption [StandardCopyOption/ATOMIC_MOVE StandardCopyOption/REPLACE_EXISTING]))
        (force-folder (.getParent file))
        n)
      (finally (Files/deleteIfExists beside)))))

(defn save
  "Writes the rows to a file that replaces the one that is there once it is complete; returns their number."
  [^Path file t rows]
  (let [file (.toAbsolutePath file)]
    (check-place file)
    (try
      (replace-file file t rows)
      (catch ClosedByInterruptException e (throw e))
      (catch IOException e
        (throw (errors/illegal-state :magnetar/not-saved
                 (str "`save` to " file " could not write there: " (why e)
                      ". What was there is as it was; is the folder one to write in, and is there room on the disk?")
                 {:file (str file) :message (ex-message e)}))))))

;; ---- reading

(defn- refuse [operation file why]
  (throw (errors/illegal-state :magnetar/bad-snapshot
           (str "`" operation "` refuses " file ": " why) {:file (str file)})))

(defn- exact-bytes [^RandomAccessFile in ^long from ^long n]
  (let [bytes (byte-array n)]
    (.seek in from)
    (.readFully in bytes)
    bytes))

(def ^:private last-line-pattern #"end (\d{1,18}) ([0-9a-f]{64})")

(defn- last-line
  "[place-behind text] of the last line of the file, without its end; nil if the last byte ends no line."
  [^RandomAccessFile in]
  (let [size (.length in)
        from (max 0 (- size (long longest-end)))
        text (String. ^bytes (exact-bytes in from (- size from)) StandardCharsets/ISO_8859_1)]
    (when (str/ends-with? text "\n")
      (let [start (inc (.lastIndexOf text "\n" (- (count text) 2)))]
        [(dec size) (subs text start (dec (count text)))]))))

(defn- digest-of
  "The digest of so many bytes from the beginning."
  [^RandomAccessFile in ^long n]
  (let [digest (digest)
        buffer (byte-array 65536)]
    (.seek in 0)
    (loop [left n]
      (if (zero? left)
        (hex digest)
        (let [got (.read in buffer 0 (int (min left (alength buffer))))]
          (.update digest buffer 0 got)
          (recur (- left got)))))))

(defn- opened [^RandomAccessFile in]
  (let [n (min (.length in) (count opening))]
    (= opening (String. ^bytes (exact-bytes in 0 n) StandardCharsets/ISO_8859_1))))

(defn- check
  "Fails unless the file is whole; returns how many rows it has."
  [operation file in]
  (when-not (opened in)
    (refuse operation file "it is no snapshot of a table, or of a newer version; those begin with \"magnetar-table 1\"."))
  (let [[end line] (last-line in)
        [_ n sum] (re-matches last-line-pattern (or line ""))]
    (when-not sum
      (refuse operation file "its end is missing: it was cut off, or is being written by something else than `save`."))
    (when-not (= sum (digest-of in (- (long end) (count sum))))
      (refuse operation file "its checksum is wrong: something has changed it since it was saved."))
    (parse-long n)))

(defn- check-exists [operation ^Path file]
  (when-not (Files/isRegularFile file (make-array LinkOption 0))
    (refuse operation file (if (Files/exists file (make-array LinkOption 0)) "it is no ordinary file." "there is no such file."))))

(defn- header-of [^BufferedReader in]
  (read-back (subs (.readLine in) (count opening))))

;; It is opened once: a `save` at that time puts another file in its place, and this one stays what it is.
(defn- read-whole
  "(f rows reader) of a file that is whole."
  [operation ^Path file f]
  (check-exists operation file)
  (with-open [in (RandomAccessFile. (str file) "r")]
    (let [n (check operation file in)]
      (.seek in 0)
      (f n (BufferedReader. (InputStreamReader. (Channels/newInputStream (.getChannel in)) StandardCharsets/UTF_8))))))

(defn describe
  "What stands in the header of a file that is whole, and the number of its rows."
  [operation ^Path file]
  (read-whole operation file (fn [n in] (assoc (header-of in) :rows n))))

(defn fill
  "Calls (begin header), which gives a store, and (add store place-of-key row) for each row of a file that is whole; returns [header store]."
  [operation ^Path file begin add]
  (read-whole operation file
    (fn [n ^BufferedReader in]
      (let [header (header-of in)
            s (begin header)]
        (dotimes [_ n]
          (add s (:key header) (read-back (.readLine in))))
        [header s]))))
