(ns magnetar.impl.fold.lines
  "The lines of a file as a collection that a fold enters anywhere: memory-mapped, split at newlines."
  {:no-doc true}
  (:require
   [magnetar.impl.errors :as errors]
   [magnetar.impl.fold.checks :as checks]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang IReduceInit)
   (java.io File IOException InputStream)
   (java.lang.foreign Arena MemorySegment ValueLayout)
   (java.nio.channels FileChannel FileChannel$MapMode)
   (java.nio.charset Charset)
   (java.nio.file Files OpenOption Path StandardOpenOption)
   (java.util ArrayList Arrays)
   (java.util.concurrent.atomic AtomicLong)
   (magnetar.impl.fold.chunks Chunk Source)))

(set! *warn-on-reflection* true)
(set! *unchecked-math* :warn-on-boxed)

(def ^:private ^:const newline-byte 10)
(def ^:private ^:const return-byte 13)
(def ^:private ^:const block-size 65536)
(def ^:private ^:const largest-chunk 16777216)
(def ^:private ^:const bytes-per-line 64) ; a guess, for :chunk

;; ---- a part of the file

(defn- copy ^bytes [^MemorySegment file ^long from ^long n]
  (let [bytes (byte-array n)]
    (MemorySegment/copy file ValueLayout/JAVA_BYTE from bytes (int 0) (int n))
    bytes))

(defn- newline-at
  "The index of the first newline from i on, or n."
  ^long [^bytes block ^long i ^long n]
  (loop [i i]
    (if (or (= i n) (= newline-byte (aget block i)))
      i
      (recur (inc i)))))

(defn- line [^bytes block ^long from ^long to ^Charset charset]
  (let [to (if (and (< from to) (= return-byte (aget block (dec to)))) (dec to) to)]
    (String. block (int from) (int (- to from)) charset)))

(defn- first-line
  "Where the first line begins at or after `from`."
  ^long [^MemorySegment file ^long from]
  (let [size (.byteSize file)]
    (loop [at (dec from)]
      (cond
        (neg? at) 0
        (>= at size) size
        :else (let [n (min block-size (- size at))
                    i (newline-at (copy file at n) 0 n)]
                (if (< i n) (+ at i 1) (recur (+ at n))))))))

(defn- newlines ^long [^bytes block]
  (areduce block i found 0 (if (= newline-byte (aget block i)) (inc found) found)))

(defn- count-newlines ^long [^MemorySegment file ^long to]
  (loop [at 0 found 0]
    (if (< at to)
      (let [n (min block-size (- to at))
            block (copy file at n)]
        (recur (+ at n) (+ found (newlines block))))
      found)))

(defn- read-lines
  "Adds the whole lines of the block that begin before `limit`; returns where the next one begins."
  [^bytes block last? limit ^Charset charset ^ArrayList lines]
  (let [n (alength block)
        limit (long limit)]
    (loop [from 0]
      (let [to (newline-at block from n)]
        (cond
          (or (>= from limit) (and last? (= from n))) from
          (< to n) (do (.add lines (line block from to charset))
                       (recur (inc to)))
          last? (do (.add lines (line block from n charset))
                    n)
          :else from)))))

(deftype Part [^long number ^MemorySegment file ^Charset charset ^long end
               ^:unsynchronized-mutable ^long next ^:unsynchronized-mutable ^long begin ^:unsynchronized-mutable ^long size]
  Chunk
  (index [_] number)
  (from [_] 0)
  (to [_] size)
  (position [_ i] (+ (count-newlines file begin) (max 0 i)))
  (slice [_]
    (let [lines (ArrayList.)]
      (set! begin next)
      (loop [block block-size]
        (when (< next end)
          (let [left (- (.byteSize file) next)
                n (min block left)
                read (long (read-lines (copy file next n) (= n left) (- end next) charset lines))]
            (if (zero? read)
              (recur (* 2 block))
              (set! next (+ next read))))))
      (set! size (long (.size lines)))
      (when (pos? size)
        (.toArray lines)))))

(deftype Parts [^MemorySegment file charset ^long chunk ^AtomicLong counter]
  Source
  (next [_ claim]
    (let [i (.getAndIncrement counter)
          from (* i chunk)
          size (.byteSize file)]
      (when (and (< from size) (claim i))
        (Part. i file charset (min size (+ from chunk)) (first-line file from) 0 0)))))

;; ---- the file

(defn- refuse [path what cause]
  (checks/misuse :magnetar/no-file (str "`lines` cannot read " path ": " what ".") {:file (str path) :cause cause}))

;; ---- in order, for what has no length, such as a pipe, and for those who read

(defn- next-block
  "What was left of the block before and what can be read now; at the end no more than that."
  ^bytes [^InputStream in ^bytes left]
  (let [n (alength left)
        block (Arrays/copyOf left (+ n (max block-size n)))]
    (Arrays/copyOf block (+ n (max 0 (.read in block (int n) (int (- (alength block) n))))))))

(defn- next-lines
  "{:lines :left :last?}: the lines that are whole with the next block, and the bytes after them."
  [in ^bytes left charset]
  (let [block (next-block in left)
        last? (= (alength block) (alength left))
        lines (ArrayList.)
        read (long (read-lines block last? (alength block) charset lines))]
    {:lines lines :left (Arrays/copyOfRange block read (alength block)) :last? last?}))

(defn- open ^InputStream [^Path path]
  (Files/newInputStream path (make-array OpenOption 0)))

(defn- read-in-order [path charset f init]
  (let [f (fn [acc line] (let [acc (f acc line)] (if (reduced? acc) (reduced acc) acc)))]
    (with-open [in (open path)]
      (loop [acc init
             left (byte-array 0)]
        (let [{:keys [lines left last?]} (next-lines in left charset)
              acc (reduce f acc lines)]
          (cond
            (reduced? acc) @acc
            last? acc
            :else (recur acc left)))))))

(deftype Lines [^Path path ^Charset charset]
  IReduceInit
  (reduce [_ f init] (read-in-order path charset f init))
  Object
  (toString [_] (str "#<lines " path ">")))

(defn in-order
  "The lines as a lazy seq; the file is open until its end was read, or the seq is unreachable."
  [^Lines lines]
  (let [blocks (fn blocks [^InputStream in left]
                 (lazy-seq
                   (let [{:keys [lines left last?]} (next-lines in left (.-charset lines))]
                     (if last?
                       (do (.close in) [lines])
                       (cons lines (blocks in left))))))]
    (lazy-seq (mapcat seq (blocks (open (.-path lines)) (byte-array 0))))))

(defmethod print-method Lines [lines ^java.io.Writer out]
  (.write out (str lines)))

(defn- named ^Charset [charset]
  (try
    (Charset/forName charset)
    (catch IllegalArgumentException e
      (throw (errors/illegal-argument :magnetar/bad-charset
                                      (str "`lines` wants a Charset or the name of one; this is " (checks/show charset) ".") {:charset charset} e)))))

(defn- charset-of ^Charset [charset]
  (let [charset (if (instance? Charset charset) charset (named charset))]
    (if (Arrays/equals (byte-array [newline-byte]) (.getBytes "\n" ^Charset charset))
      charset
      (checks/misuse :magnetar/bad-charset
                     (str "`lines` finds newlines by their byte, 10, which " charset " does not have: read it in order, with line-seq.")
                     {:charset charset}))))

(defn- path-of ^Path [file]
  (cond
    (instance? Path file) file
    (instance? File file) (.toPath ^File file)
    (string? file) (.toPath (File. ^String file))
    :else (checks/misuse :magnetar/no-file
                         (str "`lines` wants the name of a file, a File or a Path; this is " (checks/show file) ".") {:file file})))

(defn lines [file charset]
  (let [path (path-of file)]
    (cond
      (Files/isDirectory path (make-array java.nio.file.LinkOption 0)) (refuse path "it is a folder" nil)
      (not (Files/isReadable path)) (refuse path "there is no such file, or it may not be read" nil)
      :else (Lines. path (charset-of charset)))))

(defn mappable?
  "True if the file has a length that says how much there is to read; /proc and pipes have none."
  [^Lines lines]
  (let [^Path path (.-path lines)]
    (and (Files/isRegularFile path (make-array java.nio.file.LinkOption 0)) (pos? (Files/size path)))))

(defn- map-file ^MemorySegment [^Path path arena]
  (try
    (with-open [channel (FileChannel/open path (into-array OpenOption [StandardOpenOption/READ]))]
      (.map channel FileChannel$MapMode/READ_ONLY 0 (.size channel) ^Arena arena))
    (catch IOException e (refuse path (ex-message e) e))))

(defn source
  "The source of the lines, and a function that ends the mapping."
  [^Lines lines {:keys [parallelism chunk]}]
  (let [arena (Arena/ofShared)
        file (map-file (.-path lines) arena)
        share (quot (.byteSize file) (* 16 (long parallelism)))]
    {:source (Parts. file (.-charset lines) (long (max block-size (if chunk (* bytes-per-line (long chunk)) (min largest-chunk share)))) (AtomicLong.))
     :close #(.close arena)}))
