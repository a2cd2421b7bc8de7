(ns magnetar.cluster.impl.frames
  "The frames of a session: greetings, proofs of the cookie, parts of the stream, what was processed of it, its end,
  resets, and separations.

  A frame begins with its kind. A part of the stream has 17 bytes in front: the kind, the tag that the receiver has
  chosen, and its number. The others are one term."
  {:no-doc true}
  (:require
   [magnetar.etf :as etf])
  (:import
   (clojure.lang ExceptionInfo)
   (java.nio ByteBuffer)
   (java.security MessageDigest)
   (javax.crypto Mac)
   (javax.crypto.spec SecretKeySpec)))

(set! *warn-on-reflection* true)

(def nonce-size 16)

(def data-header
  "How many bytes are in front of a part of the stream."
  17)

(def ^:private kinds [:hello :proof :data :reset :end :ended :apart :processed])

(def ^:private number-of (zipmap kinds (range)))

(def ^:private codec
  "Small, since the sender has proved nothing yet."
  (etf/codec {:max-size 2000 :max-depth 4 :max-atoms 16}))

;; ---- writing

(defn- frame ^bytes [kind term]
  (let [body (etf/encode codec term)
        bytes (byte-array (inc (alength body)))]
    (aset bytes 0 (byte (number-of kind)))
    (System/arraycopy body 0 bytes 1 (alength body))
    bytes))

(defn hello
  "The frame that begins a session: who this node is, the nonce that the other has to prove the cookie with, and if a
  program has asked for it."
  ^bytes [{:keys [name creation versions nonce asked]}]
  (frame :hello [(first versions) (second versions) name creation nonce (boolean asked)]))

(defn proof
  "The frame that proves to the owner of the nonce that this node knows the cookie."
  ^bytes [nonce version mac]
  (frame :proof [nonce version mac]))

(defn reset
  "The frame that says that no session has the tag."
  ^bytes [tag]
  (frame :reset [tag]))

(defn end
  "The frame behind the last part of the stream, which would have the number: its sender leaves the cluster."
  ^bytes [tag number]
  (frame :end [tag number]))

(defn ended
  "The answer to the end of a stream, when all of it has been read."
  ^bytes [tag]
  (frame :ended [tag]))

(defn apart
  "The frame that separates the receiver, which has the tag, from this node, until a program connects them."
  ^bytes [tag]
  (frame :apart [tag]))

(defn processed
  "The frame that says up to which position of the stream with the tag all was processed."
  ^bytes [tag position]
  (frame :processed [tag position]))

(defn tag-of
  "The tag that the parts of a stream to the owner of the nonce have."
  ^long [^bytes nonce]
  (.getLong (ByteBuffer/wrap nonce)))

(defn data
  "The frame that the array is, with the part of the stream behind the room for the header, when that is filled in."
  ^bytes [^bytes frame tag number]
  (doto (ByteBuffer/wrap frame)
    (.put (byte (number-of :data)))
    (.putLong tag)
    (.putLong number))
  frame)

;; ---- reading

(defn- hello? [[least most name creation nonce asked :as x]]
  (and (= 6 (count x)) (pos-int? least) (pos-int? most) (string? name) (nat-int? creation)
       (bytes? nonce) (= nonce-size (alength ^bytes nonce)) (boolean? asked)))

(defn- checked [kind x]
  (let [[a b c d e f] x]
    (when (case kind
            :hello (hello? x)
            :proof (and (= 3 (count x)) (bytes? a) (pos-int? b) (bytes? c))
            (:end :processed) (and (= 2 (count x)) (int? a) (nat-int? b))
            (:reset :ended :apart) (and (= 1 (count x)) (int? a)))
      (case kind
        :hello {:kind kind :versions [a b] :name c :creation d :nonce e :asked f}
        :proof {:kind kind :nonce a :version b :mac c}
        :end {:kind kind :tag a :number b}
        :processed {:kind kind :tag a :position b}
        (:reset :ended :apart) {:kind kind :tag a}))))

(defn- term [kind ^bytes frame]
  (let [x (try (etf/decode codec frame 1 (dec (alength frame))) (catch ExceptionInfo _))]
    (when (vector? x)
      (checked kind x))))

(defn- part [^bytes frame]
  (when (<= (long data-header) (alength frame))
    (let [header (doto (ByteBuffer/wrap frame) .get)]
      {:kind :data :tag (.getLong header) :number (.getLong header) :bytes frame})))

(defn parsed
  "The frame as a map with its :kind; nil for what is no frame of a session."
  [^bytes frame]
  (when (pos? (alength frame))
    (let [kind (get kinds (long (aget frame 0)))]
      (case kind
        nil nil
        :data (part frame)
        (term kind frame)))))

;; ---- the cookie

(defn mac
  "What proves that `prover` knows the cookie: it covers who proves it to whom, both nonces, and the version and what it
  was chosen from: it cannot be lowered on the way."
  ^bytes [^bytes cookie version prover verifier]
  (let [mac (doto (Mac/getInstance "HmacSHA256")
              (.init (SecretKeySpec. cookie "HmacSHA256")))
        part (juxt :name :creation :versions :nonce)]
    (.doFinal mac (etf/encode codec ["magnetar session" version (part prover) (part verifier)]))))

(defn same?
  "Are the bytes equal? Compares in constant time."
  [^bytes a ^bytes b]
  (MessageDigest/isEqual a b))
