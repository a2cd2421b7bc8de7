(ns magnetar.etf
  "Encodes values in Erlang's external term format, and decodes them.

    (etf/decode (etf/encode {:name \"ada\" :since #inst \"1815-12-10\" :tags #{:math}}))
    ;=> {:name \"ada\" :since #inst \"1815-12-10\" :tags #{:math}}

  encode decode encode-into      values to bytes and back
  codec                          limits, extensions, identities
  extension record-extension     values of a program's own classes
  encoder decoder                the state of one connection

  A keyword is an atom, a vector a tuple, a list or seq a list, a string a binary, a map a map. What Erlang
  has no type for, such as a set, travels as a tuple that begins with the atom `$clj`, and comes back as it
  was. `:extensions false` leaves these out, for plain Erlang. Metadata does not travel.

  Pids, ports, references, funs, exports, bit strings and improper lists are values of the Java classes in
  the package magnetar.etf. They can be compared and sent back.

  No class or var is ever looked up by a name that was received.

  Require it as `[magnetar.etf :as etf]`."
  (:import
   (clojure.lang PersistentArrayMap PersistentHashMap PersistentVector)
   (magnetar.etf Codec Decoder Encoder Extension Identities)))

(set! *warn-on-reflection* true)

;; ---- refusals of arguments

(defn- refuse [reason message data]
  (throw (ex-info message (assoc data :magnetar/reason reason))))

(defn- shown
  "The value in a few words. It may be large, or have no end."
  [x]
  (if (or (nil? x) (boolean? x) (number? x) (keyword? x))
    (pr-str x)
    (str "a " (.getName (class x)))))

(defn- check-keys [function known options]
  (when-not (map? options)
    (refuse :magnetar/bad-options
            (str "`magnetar.etf/" function "` takes its options as a map; this is " (shown options) ".")
            {:options options}))
  (when-let [unknown (seq (remove known (keys options)))]
    (refuse :magnetar/unknown-option
            (str "`magnetar.etf/" function "` does not know " (apply pr-str unknown) "; its options are "
                 (apply pr-str (sort known)) ".")
            {:unknown (vec unknown) :options options})))

(defn- bad-option [option wanted x]
  (refuse :magnetar/bad-option (str "`magnetar.etf/codec`: " option " is " wanted "; this is " (shown x) ".")
          {:path [option] :value x}))

;; ---- extensions

(defn- bad-extension [key wanted x]
  (refuse :magnetar/bad-extension
          (str "`magnetar.etf/extension`: " key " is " wanted "; this is " (shown x) ".")
          {:path [key] :value x}))

(def ^:private with-terms
  "Classes whose values are always written as terms of their own."
  #{Boolean Double Long String clojure.lang.Keyword PersistentArrayMap PersistentHashMap PersistentVector})

(defn extension
  "Returns an extension: how the values of a class travel.

  :write is called with a value of the class, and returns its payload: another value, which is encoded.
  :read is called with a payload and returns a value. A payload may be wrong or forged. If :read throws, the
  term is refused. Both sides need an extension with the same :tag. Their classes may differ.

  Values of subclasses are written too. If several extensions fit, the extension of the nearest class is used.
  If only interfaces fit, the first of their extensions is used.

  Throws an ExceptionInfo with :magnetar/bad-extension, :magnetar/bad-options or :magnetar/unknown-option.

  Options:
    :tag    a keyword with a namespace
    :class  a class or an interface
    :write  a function from a value of the class to its payload
    :read   a function from a payload to a value

  Example:

    (def duration (etf/extension {:tag :shop/duration
                                  :class java.time.Duration
                                  :write str
                                  :read #(java.time.Duration/parse %)}))
    (def codec (etf/codec {:extensions [duration]}))
    (str (etf/decode codec (etf/encode codec (java.time.Duration/ofHours 2)))) ;=> \"PT2H\"

  See also `record-extension`, `codec`."
  {:added "0.2"}
  [{:keys [tag write read] of :class :as options}]
  (check-keys "extension" #{:tag :class :write :read} options)
  (when-not (qualified-keyword? tag)
    (bad-extension :tag "a keyword with a namespace" tag))
  (when-not (and (class? of) (not (with-terms of)))
    (bad-extension :class "a class whose values have no term of their own" of))
  (when-not (ifn? write)
    (bad-extension :write "a function of a value" write))
  (when-not (ifn? read)
    (bad-extension :read "a function of a payload" read))
  (Extension. tag of write read))

(defn record-extension
  "Returns the extension of a record: its values travel as maps of their fields.

  The class is given, not its name, so a name that was received never makes a record. `from-map` is the
  function map->Name, or another one that checks what it gets.

  Throws an ExceptionInfo with :magnetar/bad-extension.

  Example:

    (etf/codec {:extensions [(etf/record-extension :shop/book Book map->Book)]})

  See also `extension`."
  {:added "0.2"}
  [tag record from-map]
  (extension {:tag tag :class record :write #(into {} %) :read from-map}))

;; ---- codecs

(def ^:private defaults
  {:max-depth 256
   :max-size 16777216
   :max-atoms 65536
   :max-growth 10
   :nil :nil
   :extensions []
   :identities nil})

(def ^:private longest-array (- Integer/MAX_VALUE 8))

(defn- check-number [option x least most]
  (when-not (and (int? x) (<= (long least) (long x) (long most)))
    (bad-option option (str "a whole number from " least " to " most) x)))

(defn- check-extensions [extensions]
  (when-not (or (false? extensions)
                (and (or (sequential? extensions) (set? extensions))
                     (every? #(instance? Extension %) extensions)))
    (bad-option :extensions "false, or a collection of what `extension` and `record-extension` return"
                extensions))
  (doseq [[what part] {"tag" #(.tag ^Extension %), "class" #(.type ^Extension %)}
          [value n] (frequencies (map part (or extensions [])))
          :when (< 1 (long n))]
    (refuse :magnetar/bad-option
            (str "`magnetar.etf/codec`: " n " of the :extensions have the " what " " value
                 ". Keep one of them.")
            {:path [:extensions] :value extensions})))

(defn codec
  "Returns a codec: what is written and read, and the limits of both.

  It is immutable, and any number of threads may use it.

  Throws an ExceptionInfo with :magnetar/bad-option, :magnetar/bad-options or :magnetar/unknown-option.

  Options:
    :max-depth   how many collections may be in each other, 1 to 10000. An extension counts as well, a set as
                 two. Default 256
    :max-size    the most bytes of a term, of a compressed one after it is inflated. Default 16777216 (16 MiB)
    :max-atoms   how many new keywords a decoder may make of atoms. A keyword with a name of more than 255
                 characters counts as several. Default 65536
    :max-growth  how many times the bytes of its term a value of more than 4 MiB may take in memory, 1 to
                 1000. Sets and maps of small integers take most, up to 60 times. Default 10
    :nil         the atom for nil, :nil or :undefined, the same on both sides. With :undefined, the atom nil
                 is the keyword :nil, and :undefined travels as an extension. Default :nil
    :extensions  a collection of extensions; or false, for plain Erlang: then a byte array is a binary, and
                 what Erlang has no term for is refused. Default []
    :identities  a `magnetar.etf.Identities`, which maps a program's own objects to pids, ports and references
                 and back; or nil. Default nil

  Example:

    (def erlang (etf/codec {:extensions false}))
    (vec (etf/encode erlang (byte-array [1 2]))) ;=> [-125 109 0 0 0 2 1 2]

  See also `extension`, `encoder`."
  {:added "0.2"}
  ([] (codec {}))
  ([options]
   (check-keys "codec" (set (keys defaults)) options)
   (let [{:keys [max-depth max-size max-atoms max-growth extensions identities]} (merge defaults options)]
     (check-number :max-depth max-depth 1 10000)
     (check-number :max-size max-size 2 longest-array)
     (check-number :max-atoms max-atoms 0 Integer/MAX_VALUE)
     (check-number :max-growth max-growth 1 1000)
     (when-not (#{:nil :undefined} (:nil options :nil))
       (bad-option :nil ":nil or :undefined" (:nil options)))
     (check-extensions extensions)
     (when-not (or (nil? identities) (instance? Identities identities))
       (bad-option :identities "a magnetar.etf.Identities or nil" identities))
     (Codec. max-depth max-size max-atoms max-growth (= :undefined (:nil options))
             (when extensions (vec extensions)) identities))))

(def ^:private ^Codec standard (codec))

(defn- not-a-codec [function wanted x]
  (refuse :magnetar/not-a-codec
          (str "`magnetar.etf/" function "` wants " wanted "; this is " (shown x) ".")
          {:value x}))

(defn encoder
  "Returns an encoder of the codec, whose buffer is used again for each value.

  One thread at a time may use it, for one value at a time. Its methods write several terms into an array,
  also one of the caller: see the class magnetar.etf.Encoder.

  Throws an ExceptionInfo with :magnetar/not-a-codec.

  Example:

    (def out (etf/encoder (etf/codec)))
    (etf/decode (etf/encode out [:order 17])) ;=> [:order 17]

  See also `decoder`, `encode`."
  {:added "0.2"}
  ^Encoder [codec]
  (when-not (instance? Codec codec)
    (not-a-codec "encoder" "a codec" codec))
  (Encoder. codec))

(defn decoder
  "Returns a decoder of the codec, which counts the atoms of one connection.

  One thread at a time may use it, for one term at a time. Its methods read several terms of an array: see the
  class magnetar.etf.Decoder. The keywords that it makes of atoms count for :max-atoms until it is
  dropped, so a peer that keeps sending new atoms is refused in the end.

  Throws an ExceptionInfo with :magnetar/not-a-codec.

  Example:

    (def in (etf/decoder (etf/codec {:max-atoms 1000})))
    (etf/decode in (etf/encode [:order 17])) ;=> [:order 17]

  See also `encoder`, `decode`."
  {:added "0.2"}
  ^Decoder [codec]
  (when-not (instance? Codec codec)
    (not-a-codec "decoder" "a codec" codec))
  (Decoder. codec))

;; ---- encoding and decoding

(defn- encoder-of ^Encoder [function codec]
  (cond
    (instance? Encoder codec) codec
    (instance? Codec codec) (Encoder. codec)
    :else (not-a-codec function "a codec or an encoder before the value" codec)))

(defn- decoder-of ^Decoder [codec]
  (cond
    (instance? Decoder codec) codec
    (instance? Codec codec) (Decoder. codec)
    :else (not-a-codec "decode" "a codec or a decoder before the bytes" codec)))

(defn- checked-bytes ^bytes [function x]
  (when-not (bytes? x)
    (refuse :magnetar/bad-source
            (str "`magnetar.etf/" function "` wants a byte array; this is " (shown x) ".")
            {:source x}))
  x)

(defn- part? [^bytes array offset length]
  (and (int? offset)
       (int? length)
       (<= 0 (long offset) (alength array))
       (<= 0 (long length) (- (alength array) (long offset)))))

(defn- check-part [function ^bytes array offset length]
  (when-not (part? array offset length)
    (refuse :magnetar/bad-source
            (str "`magnetar.etf/" function "`: " (shown length) " bytes from offset " (shown offset)
                 " are not within the array, which has " (alength array) ".")
            {:offset offset :length length})))

(defn encode
  "Encodes a value; returns a byte array, which begins with 131.

  The first argument may be a codec, or an encoder.

  Throws an ExceptionInfo with :magnetar/no-term and the :path to a value that has no term, or
  :magnetar/term-limit with the :limit. What a lazy seq throws is thrown. Throws an IllegalStateException if
  the encoder is writing another value, whose lazy seq encodes with it.

  Example:

    (vec (etf/encode [:ok 1])) ;=> [-125 104 2 119 2 111 107 97 1]

  See also `decode`, `encode-into`.

  Erlang: term_to_binary."
  {:added "0.2"}
  (^bytes [value] (.encode (Encoder. standard) value))
  (^bytes [codec value] (.encode (encoder-of "encode" codec) value)))

(defn encode-into
  "Encodes a value into an array at an offset; returns the offset behind it.

  The first argument is a codec or an encoder.

  Throws an ExceptionInfo as `encode` does, or with :magnetar/no-room if the array is too short. Then nothing
  is written.

  Example:

    (etf/encode-into (etf/codec) :ok (byte-array 100) 4) ;=> 9

  See also `encode`."
  {:added "0.2"}
  [codec value array offset]
  (let [encoder (encoder-of "encode-into" codec)
        array (checked-bytes "encode-into" array)]
    (check-part "encode-into" array offset 0)
    (.clear encoder 0)
    (.append encoder value)
    (let [needed (.length encoder)
          offset (long offset)
          room (- (alength array) offset)]
      (when (< room needed)
        (refuse :magnetar/no-room
                (str "`magnetar.etf/encode-into`: the term has " needed
                     " bytes, and the array has room for " room ".")
                {:needed needed :room room}))
      (System/arraycopy (.buffer encoder) 0 array (int offset) needed)
      (+ offset needed))))

(defn decode
  "Decodes a term; returns its value.

  The first argument may be a codec, or a decoder. The bytes, or the part of them from `offset`, are one
  term and nothing else. It may be compressed.

  Throws an ExceptionInfo with :magnetar/bad-term and the :offset at which the bytes are wrong,
  :magnetar/unknown-extension with the :tag, or :magnetar/term-limit with the :limit. It throws nothing else,
  whatever the bytes are.

  Example:

    (etf/decode (byte-array [131 104 2 119 2 111 107 97 1])) ;=> [:ok 1]

  See also `encode`, `decoder`.

  Erlang: binary_to_term."
  {:added "0.2"}
  ([bytes] (.decode (Decoder. standard) (checked-bytes "decode" bytes)))
  ([codec bytes] (.decode (decoder-of codec) (checked-bytes "decode" bytes)))
  ([codec bytes offset length]
   (check-part "decode" (checked-bytes "decode" bytes) offset length)
   (.decode (decoder-of codec) bytes (int offset) (int length))))
