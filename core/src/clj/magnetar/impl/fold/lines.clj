(ns magnetar.impl.fold.lines
  "The lines of a file as a collection that a fold enters anywhere: memory-mapped, split at newlines."
  {:no-doc true}
  (:require
   [magnetar.impl.fold.checks :as checks]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang IReduceInit)
   (java.io BufferedReader File IOException)
   (java.lang.foreign Arena MemorySegment ValueLayout)
   (java.nio.channels FileChannel FileChannel$MapMode)
   (java.nio.charset Charset)
   (java.nio.file Files OpenOption Path StandardOpenOption)
   (java.util ArrayList)
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
  (longs [_ _ _ _] -1)
  (total [_] 0)
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

(defn- read-in-order [^Path path charset f init]
  (with-open [^BufferedReader reader (Files/newBufferedReader path charset)]
    (loop [acc init]
      (let [line (.readLine reader)]
        (cond
          (nil? line) acc
          (reduced? acc) @acc
          :else (let [acc (f acc line)]
                  (if (reduced? acc) @acc (recur acc))))))))

(deftype Lines [^Path path ^Charset charset]
  IReduceInit
  (reduce [_ f init] (read-in-order path charset f init))
  Object
  (toString [_] (str "#<lines " path ">")))

(defmethod print-method Lines [lines ^java.io.Writer out]
  (.write out (str lines)))

(defn- charset-of ^Charset [charset]
  (let [charset (if (instance? Charset charset) charset (Charset/forName charset))]
    (if (= 1 (alength (.getBytes "\n" ^Charset charset)))
      charset
      (checks/misuse :magnetar/bad-charset
                     (str "`lines` finds newlines by their byte, which " charset " does not have: read it in order, with line-seq.")
                     {:charset charset}))))

(defn lines [file charset]
  (let [^Path path (if (instance? Path file) file (.toPath (if (instance? File file) ^File file (File. ^String file))))]
    (cond
      (Files/isDirectory path (make-array java.nio.file.LinkOption 0)) (refuse path "it is a folder" nil)
      (not (Files/isReadable path)) (refuse path "there is no such file, or it may not be read" nil)
      :else (Lines. path (charset-of charset)))))

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
